// Softmax attention between the projections of a layer and its output, there and back: q/k norms,
// RoPE, window, sink tokens, learned sinks. README.md of sliding_window has the equations.
#pragma once

#include <optional>

#include "mixers/shared/attention_core.h"
#include "mixers/shared/training/maths.h"

namespace bifocal::training {

class AttentionTraining {
  public:
    AttentionTraining(AttentionConfig config, LayerContext context);

    // `k` and `v` [slots, G, D], token by token, as they stand in the sums: a token t < S in slot
    // t, others in slot S + (t - S) mod W.
    void add_state(StateLayout& layout, const StateOptions& options, DType dtype) const;
    RunSizes sizes() const;

    // One call's numbers; rows are tokens of all sequences, and of `keys` and `values` those that
    // are held before them too.
    template <class R>
    struct Rows {
        int64_t B, T, held;                // held: most tokens of a state
        View<R, 2> q, k, v;                // as projected, [B * T, width]; the caller's
        View<R, 2> out;                    // [B * T, H·D], the result
        View<R, 2> queries, sink_queries;  // turned; sink_queries only where they differ
        View<R, 2> keys, values;           // [B * (held + T), G·D]
        View<R, 2> angles, sink_angles;    // [B * T, rotary]
        R* scores;                         // [threads, 2, held + T]
        // backward
        View<R, 2> dout, dqueries, dsink_queries, dkeys, dvalues;
        R* dsinks;  // [B * H]
    };
    template <class R, class Memory>
    Rows<R> take(Memory& memory, const StateLayout* layout, int64_t batch, int64_t n_tokens,
                 int n_threads) const;

    // Fills rows.out and what backward() needs; states stay as they are.
    template <class R>
    void forward(const Run<R>& run, const Stretch<R>& stretch, const Rows<R>& rows) const;
    // Writes what rows hold into the states.
    template <class R>
    void advance(const Stretch<R>& stretch, const Rows<R>& rows) const;
    // Adds to dq, dk, dv [B * T, width] what rows.dout gives. REQUIRES: forward() filled rows.
    template <class R>
    void backward(const Run<R>& run, const Stretch<R>& stretch, const StretchGrads<R>& grads,
                  const Rows<R>& rows, View<R, 2> dq, View<R, 2> dk, View<R, 2> dv) const;

  private:
    // Which tokens a sequence at `pos` holds: sinks [0, sinks) and [first, pos).
    struct Held {
        int64_t pos, sinks, first;
        int64_t size() const { return sinks + pos - first; }
        // Row of token j among those held and new.
        int64_t row(int64_t j) const { return j < sinks ? j : sinks + j - first; }
    };
    Held held_at(int64_t pos, bool has_state) const;
    bool has_sink_query() const { return config_.sinks_at_cache_positions && rope_; }
    // Calls f(slot, row) for each token that a state at `end` holds.
    template <class F>
    void each_slot(const Held& held, int64_t end, F f) const;
    template <class R>
    struct Query;
    // Calls f(query) for every token and head, threads over sequences and kv heads.
    template <class R, class F>
    void each_query(const Run<R>& run, const Stretch<R>& stretch, const Rows<R>& rows, F f) const;
    // Rows of q and k, normed and turned, or their gradients back.
    template <class R>
    void prepare(const Run<R>& run, const Stretch<R>& stretch, const Rows<R>& rows) const;
    template <class R>
    void prepare_backward(const Run<R>& run, const Stretch<R>& stretch, const Rows<R>& rows,
                          View<R, 2> dq, View<R, 2> dk, View<R, 2> dv) const;
    template <class R>
    R find_shares(const Run<R>& run, const Rows<R>& rows, const Query<R>& query,
                  const R* sink_logits) const;

    AttentionConfig config_;
    LayerContext context_;
    std::optional<ops::RopeTable> rope_;
    int64_t sink_tokens_ = 0, window_ = 0;
};

}  // namespace bifocal::training
