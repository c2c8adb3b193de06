// The projections of a layer with latent keys (LatentKeys). They are absorbed: a query is taken to
// the space of the latent rows, eq. (15) of sliding_window/README.md, so that keys and values never
// have to be made, and what it reads there is taken to values, eq. (16).
#pragma once

#include <string>
#include <vector>

#include "core/huge_memory.h"
#include "mixers/mixer.h"
#include "ops/linear.h"

namespace bifocal {

struct LatentRows {
    View<float, 2> queries;  // [N, H·D] as projected
    View<float, 2> q;        // [N, H·(R + P)] absorbed
    View<float, 2> k;        // [N, R + P] the latent rows, keys of every head
    View<float, 2> v;        // none: a key begins with its value
    View<float, 2> values;   // [N, H·V]
};

class LatentProjection {
  public:
    // Of what all heads give.
    static int64_t width(const LayerContext& context) {
        return context.n_heads * context.latent->value_dim;
    }

    static void add_weights(std::vector<WeightSpec>& list, const LayerContext& context);
    Status bind(const LayerContext& context, const WeightMap& weights);

    static size_t row_bytes(const LayerContext& context, int64_t n_rows);
    static LatentRows take_rows(const LayerContext& context, int64_t n_rows, Exec& exec);
    // Scratch of project().
    static size_t workspace_bytes(const LayerContext& context, int64_t n_rows);

    // Fills rows.q and rows.k. normed: [N, M]
    void project(View<const float, 2> normed, const LatentRows& rows, Exec& exec) const;
    // [N, H·V], from what the heads read: the first R elements of each head of rows.q.
    View<float, 2> finish(const LatentRows& rows, Exec& exec) const;

    std::vector<std::string> describe() const;
    int64_t weight_bytes() const;

  private:
    int64_t n_heads_ = 0;
    LatentKeys sizes_;
    ops::Linear q_, latent_;       // [H·D, M], [R + P, M]
    std::vector<float> norm_;      // [R]
    HugeVector<float> to_latent_;  // [H, D - P, R] rows of kv_b_proj that make keys
    HugeVector<float> to_values_;  // [H, R, V] those that make values, turned
};

}  // namespace bifocal
