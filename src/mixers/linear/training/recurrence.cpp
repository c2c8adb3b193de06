#include "mixers/linear/training/recurrence.h"

#include <limits>

#include "core/check.h"
#include "mixers/linear/recurrence_reference.h"

namespace bifocal::linear {
namespace {

// States are kept every so many tokens.
int64_t stride_of(const Recurrence& rec) {
    return chunk_length(rec);
}
int64_t state_size(const Recurrence& rec) {
    return rec.key_dim * rec.value_dim + rec.key_dim + 1;
}
template <class R>
State<R> state_at(const Recurrence& rec, R* memory, int64_t i) {
    R* const s = memory + i * state_size(rec);
    R* const n = s + rec.key_dim * rec.value_dim;
    return {s, rec.has_normaliser() ? n : nullptr,
            rec.has_stabiliser() ? n + rec.key_dim : nullptr};
}
template <class R>
void copy_state(const Recurrence& rec, const State<R>& from, const State<R>& to) {
    std::copy_n(from.s, rec.key_dim * rec.value_dim, to.s);
    if (from.n) std::copy_n(from.n, rec.key_dim, to.n);
    if (from.m) *to.m = *from.m;
}
bool goes_by_chunks(const Recurrence& rec) {
    return !rec.decays_by_channel && rec.write != Write::delta;
}

}  // namespace

bool has_backward(const Recurrence& rec) {
    return !rec.has_bonus;
}

template <class R>
int64_t training_scratch(const Recurrence& rec, int64_t n_tokens) {
    const int64_t states = (n_tokens + stride_of(rec) - 1) / stride_of(rec) + 1;
    return states * state_size(rec) + kAlignment +
           std::max({scratch_floats(rec), chunk_backward_scratch<R>(rec),
                     token_backward_scratch<R>(rec)});
}

template <class R>
void training_forward(const Recurrence& rec, const Tokens<R>& tokens, const State<R>& state,
                      const training::Maths<R>& maths, std::span<R> scratch) {
    if constexpr (std::is_same_v<R, float>) {
        if (maths.has_kernels())
            return (goes_by_chunks(rec) ? run_chunks : run_recurrent)(rec, tokens, state, scratch);
    }
    reference_recurrent(rec, tokens, state);
}

template <class R>
void training_backward(const Recurrence& rec, const Tokens<R>& tokens, const State<R>& first,
                       const TokenGrads<R>& grads, const State<R>& dstate,
                       const training::Maths<R>& maths, std::span<R> scratch) {
    BIFOCAL_CHECK(has_backward(rec), "a recurrence without a backward");
    const int64_t stride = stride_of(rec), n = tokens.n;
    const int64_t chunks = (n + stride - 1) / stride;
    const int64_t kept = static_cast<int64_t>(
        align_up(static_cast<size_t>((chunks + 1) * state_size(rec)) * sizeof(R)) / sizeof(R));
    const auto rest = scratch.subspan(static_cast<size_t>(kept));
    R* const states = scratch.data();
    copy_state(rec, first, state_at(rec, states, 0));
    for (int64_t i = 0; i < chunks; ++i) {
        const State<R> next = state_at(rec, states, i + 1);
        copy_state(rec, state_at(rec, states, i), next);
        const int64_t t = i * stride;
        training_forward(rec, tokens.from(t).first(std::min(stride, n - t)), next, maths, rest);
    }
    for (int64_t i = chunks - 1; i >= 0; --i) {
        const int64_t t = i * stride;
        const ChunkCall<R> call{rec,
                                tokens.from(t).first(std::min(stride, n - t)),
                                state_at(rec, states, i),
                                state_at(rec, states, i + 1),
                                grads.from(t),
                                dstate,
                                maths,
                                rest.data()};
        (goes_by_chunks(rec) && !maths.is_plain ? backward_by_chunk<R>
                                                : backward_by_token<R>)(call);
    }
}

template <class R>
void stabiliser_backward(const ChunkCall<R>& call, const R* dm) {
    const Tokens<R>& x = call.x;
    const auto strength = [&](int64_t t) { return x.w ? x.w[t * x.w_row] : R(0); };
    // Which of the two it was, forwards; then back.
    bool by_strength[kChunk];
    R m = *call.before.m;
    for (int64_t t = 0; t < x.n; ++t) {
        by_strength[t] = strength(t) >= x.g[t * x.g_row] + m;
        m = std::max(x.g[t * x.g_row] + m, strength(t));
    }
    R flow = *call.dstate.m;
    for (int64_t t = x.n - 1; t >= 0; --t) {
        flow += dm[t];
        if (!by_strength[t]) {
            call.grads.dg[t * call.grads.dg_row] += flow;
            continue;
        }
        if (call.grads.dw) call.grads.dw[t * call.grads.dw_row] += flow;
        flow = 0;
    }
    *call.dstate.m = flow;
}

#define BIFOCAL_FOR(R)                                                                    \
    template int64_t training_scratch<R>(const Recurrence&, int64_t);                     \
    template void training_forward(const Recurrence&, const Tokens<R>&, const State<R>&,  \
                                   const training::Maths<R>&, std::span<R>);              \
    template void training_backward(const Recurrence&, const Tokens<R>&, const State<R>&, \
                                    const TokenGrads<R>&, const State<R>&,                \
                                    const training::Maths<R>&, std::span<R>);             \
    template void stabiliser_backward(const ChunkCall<R>&, const R*);
BIFOCAL_FOR(float)
BIFOCAL_FOR(double)
#undef BIFOCAL_FOR

}  // namespace bifocal::linear
