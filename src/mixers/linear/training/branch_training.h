// LinearBranch with a backward: gates, short convolutions, features, recurrence, output norm and
// gate between the projections of a layer and its output.
#pragma once

#include <optional>

#include "mixers/linear/branch.h"
#include "mixers/linear/training/recurrence.h"
#include "mixers/shared/training/linear_layer.h"

namespace bifocal::linear {

class BranchTraining {
  public:
    BranchTraining(LinearConfig config, LayerContext context);

    void add_state(StateLayout& layout, DType dtype) const;
    template <class R>
    void init_state(const StateLayout& layout, std::byte* state) const;
    training::RunSizes sizes() const;

    // One call's numbers; a row is a token, [B * T, width].
    template <class R>
    struct Rows {
        int64_t B, T;
        View<R, 2> q, k, v;                 // as projected; the caller's
        View<R, 2> q_conv, k_conv, v_conv;  // as convolved; q, k, v without a convolution
        View<R, 2> q_head, k_head, v_head;  // as they enter feature maps and the recurrence
        View<R, 2> low[3];                  // between the factors of decay, strength and gate
        View<R, 2> decay, strength, gate;   // pre-activations
        View<R, 2> g, w, q_features, k_features, angles;
        View<R, 2> recurred, y;  // of the recurrence; the result
        R* scratch;              // [threads, scratch_each]
        int64_t scratch_each;
        R *before, *after;  // [B, states, ..], those of the recurrence
        // backward
        View<R, 2> dy, dgate, ddecay, dstrength, dlow[3];
        View<R, 2> dq_states, dk_states, dv_states, dg, dw;  // [.., states, ..]
        View<R, 2> dq_conv, dk_conv, dv_conv;
        R* dstates;    // of `after`, then of `before`
        R* head_sums;  // [query and key heads, head_dim + K]
    };
    template <class R, class Memory>
    Rows<R> take(Memory& memory, int64_t batch, int64_t n_tokens, int n_threads) const;

    // Fills rows.y; the stretch's states stay as they are. normed: [B * T, M]
    template <class R>
    void forward(const training::Run<R>& run, const Stretch<R>& stretch, View<const R, 2> normed,
                 const Rows<R>& rows) const;
    // Writes what forward() left into the states.
    template <class R>
    void advance(const Stretch<R>& stretch, const Rows<R>& rows) const;
    // Adds to dq, dk, dv and dnormed what rows.dy gives. REQUIRES: forward() filled rows.
    template <class R>
    void backward(const training::Run<R>& run, const Stretch<R>& stretch,
                  const StretchGrads<R>& grads, View<const R, 2> normed, const Rows<R>& rows,
                  View<R, 2> dq, View<R, 2> dk, View<R, 2> dv, View<R, 2> dnormed) const;

  private:
    // A projection of the normed input, through two factors if it has a rank.
    struct Factors {
        training::LinearLayer first, second;
        bool is_there() const { return first.is_there(); }
        bool has_second() const { return second.is_there(); }
    };
    Factors factors_of(const Projection& projection) const;
    int64_t channels() const {
        return config_.recurrence.decays_by_channel ? config_.key_dim() : 1;
    }
    int64_t state_size() const { return config_.key_dim() * (config_.value_dim() + 1) + 1; }
    template <class R>
    Params<R> params(const training::Run<R>& run) const;
    // The state of head s of sequence b in such memory.
    template <class R>
    State<R> state_at(R* memory, int64_t b, int64_t s) const;
    // Between such memory and states of a layout.
    template <class R, class F>
    void each_field(const StateLayout& layout, std::span<std::byte* const> states, R* memory,
                    F f) const;
    template <class R>
    void load(const Stretch<R>& stretch, const Rows<R>& rows) const;
    template <class R>
    Tokens<R> tokens(const Rows<R>& rows, const Params<R>& p, int64_t b, int64_t s) const;

    template <class R>
    void project(const training::Run<R>& run, View<const R, 2> normed, const Rows<R>& rows) const;
    template <class R>
    void prepare(const training::Run<R>& run, const Stretch<R>& stretch, const Params<R>& p,
                 const Rows<R>& rows) const;

    template <class R>
    void finish_back(const training::Run<R>& run, const Params<R>& p, const Rows<R>& rows) const;
    template <class R>
    void recur_back(const training::Run<R>& run, const Params<R>& p, const Rows<R>& rows) const;
    template <class R>
    void gates_back(const training::Run<R>& run, const Params<R>& p, const Rows<R>& rows) const;
    template <class R>
    void heads_back(const training::Run<R>& run, const Params<R>& p, const Rows<R>& rows) const;
    template <class R>
    void convolutions_back(const training::Run<R>& run, const Stretch<R>& stretch,
                           const StretchGrads<R>& grads, const Params<R>& p, const Rows<R>& rows,
                           View<R, 2> dq, View<R, 2> dk, View<R, 2> dv) const;

    LinearConfig config_, map_only_, norm_only_;
    LayerContext context_;
    std::optional<ops::RopeTable> rope_;
    Factors factors_[3];  // decay, strength, gate
};

}  // namespace bifocal::linear
