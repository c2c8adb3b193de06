// The q, k and v projections of a softmax layer, which its linear branches share.
#pragma once

#include <string>
#include <vector>

#include "mixers/mixer.h"
#include "ops/linear.h"

namespace bifocal {

struct QkvRows {
    View<float, 2> q;     // [N, H·D]
    View<float, 2> k, v;  // [N, G·D]
};

class QkvProjection {
  public:
    static void add_weights(std::vector<WeightSpec>& list, const LayerContext& context);
    Status bind(const LayerContext& context, const WeightMap& weights);

    static size_t row_bytes(const LayerContext& context, int64_t n_rows);
    static QkvRows take_rows(const LayerContext& context, int64_t n_rows, Exec& exec);
    // Three products of the normed input.
    void add_calls(const QkvRows& rows, ops::LinearCall* calls) const;

    std::vector<std::string> describe() const;
    int64_t weight_bytes() const;

  private:
    ops::Linear q_, k_, v_;  // [H·D, M], [G·D, M], [G·D, M]
};

}  // namespace bifocal
