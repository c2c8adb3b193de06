// The recurrence of one state with its backward, for training (README.md, eq. 11-22). Two forms:
// chunks by matrix products, for scalar decays and writes that only add; and token by token, for
// everything but a bonus. Both find the states between chunks again from the first one.
#pragma once

#include "mixers/linear/recurrence.h"
#include "mixers/shared/training/maths.h"

namespace bifocal::linear {

// Gradients beside Tokens, rows alike.
template <class R>
struct TokenGrads {
    const R* dy = nullptr;           // [T, n_queries, V]
    R *dq = nullptr, *dk = nullptr;  // [T, n_queries, K], [T, K], overwritten
    R *dv = nullptr, *dg = nullptr;  // [T, V], [T] or [T, K], overwritten
    R* dw = nullptr;                 // [T], overwritten; null if there are no strengths
    int64_t dy_row = 0, dq_row = 0, dk_row = 0, dv_row = 0, dg_row = 0, dw_row = 0;

    TokenGrads from(int64_t t) const {
        TokenGrads rest = *this;
        rest.dy += t * dy_row;
        rest.dq += t * dq_row;
        rest.dk += t * dk_row;
        rest.dv += t * dv_row;
        rest.dg += t * dg_row;
        if (dw) rest.dw += t * dw_row;
        return rest;
    }
};

bool has_backward(const Recurrence& recurrence);
// Numbers of scratch that either direction takes.
template <class R>
int64_t training_scratch(const Recurrence& recurrence, int64_t n_tokens);

// Fills tokens.y; `state` goes on.
template <class R>
void training_forward(const Recurrence& recurrence, const Tokens<R>& tokens, const State<R>& state,
                      const training::Maths<R>& maths, std::span<R> scratch);

// `first`: the state before the tokens, which are overwritten only in y. dstate goes back from the
// state after them to `first`. s and n of it count with m held, m with e^m S and e^m n held.
template <class R>
void training_backward(const Recurrence& recurrence, const Tokens<R>& tokens, const State<R>& first,
                       const TokenGrads<R>& grads, const State<R>& dstate,
                       const training::Maths<R>& maths, std::span<R> scratch);

// One chunk of at most kChunk tokens; `after`: the state behind it.
template <class R>
struct ChunkCall {
    const Recurrence& rec;
    Tokens<R> x;
    State<R> before, after;  // read only
    TokenGrads<R> grads;
    State<R> dstate;
    const training::Maths<R>& maths;
    R* scratch;
};
template <class R>
int64_t chunk_backward_scratch(const Recurrence& recurrence);
template <class R>
void backward_by_chunk(const ChunkCall<R>& call);
template <class R>
int64_t token_backward_scratch(const Recurrence& recurrence);
template <class R>
void backward_by_token(const ChunkCall<R>& call);

// What both forms do with gradients of the stabilisers, eq. (5) backwards: dm [T] of each token's
// m go to its decay or its strength, whichever set it.
template <class R>
void stabiliser_backward(const ChunkCall<R>& call, const R* dm);

}  // namespace bifocal::linear
