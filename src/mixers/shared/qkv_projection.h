// The q, k and v projections of a softmax layer, which its linear branches share, and the gate on
// its output if the layer has one: q_proj then has, for each head, D rows of queries and D of gate.
#pragma once

#include <string>
#include <vector>

#include "mixers/mixer.h"
#include "ops/linear.h"

namespace bifocal {

struct QkvRows {
    View<float, 2> q;     // [N, H·D]
    View<float, 2> k, v;  // [N, G·D]
    View<float, 2> gate;  // [N, H·D], or [N, 0] without one
};

class QkvProjection {
  public:
    // Of what all heads give.
    static int64_t width(const LayerContext& context) { return context.n_heads * context.head_dim; }

    static void add_weights(std::vector<WeightSpec>& list, const LayerContext& context);
    Status bind(const LayerContext& context, const WeightMap& weights);

    static size_t row_bytes(const LayerContext& context, int64_t n_rows);
    static QkvRows take_rows(const LayerContext& context, int64_t n_rows, Exec& exec);
    // Products of the normed input; returns how many, at most 4.
    size_t add_calls(const QkvRows& rows, ops::LinearCall* calls) const;
    // All of them. normed: [N, M]
    void project(View<const float, 2> normed, const QkvRows& rows, Exec& exec) const;
    static size_t workspace_bytes(const LayerContext& context, int64_t n_rows);
    // [N, H·D], what the heads give, gated; they left it in rows.q.
    View<float, 2> finish(const QkvRows& rows, Exec& exec) const;
    // y *= σ(gate), if there is one; y: [N, H·D], dense, what the heads give.
    void apply_gate(const QkvRows& rows, View<float, 2> y, Exec& exec) const;

    std::vector<std::string> describe() const;
    int64_t weight_bytes() const;

  private:
    bool has_gate_ = false;
    ops::Linear q_, k_, v_, gate_;  // [H·D, M], [G·D, M], [G·D, M], [H·D, M]
};

}  // namespace bifocal
