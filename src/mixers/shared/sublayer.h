// The two ends that every mixer's sublayer has: the norm before it, and its output projection,
// norm and residual after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mixers/mixer.h"
#include "ops/linear.h"

namespace bifocal {

class Sublayer {
  public:
    // Of both ends; `out`: name of the output projection, without ".weight"; [M, n_in].
    static std::vector<WeightSpec> weights(const LayerContext& context, const std::string& out,
                                           int64_t n_in);
    Status bind(const LayerContext& context, const std::string& out, const WeightMap& weights);

    void norm(View<const float, 2> x, View<float, 2> normed, Exec& exec) const;
    // x += what `y` projects to, or as the layer's residual says; y: [N, n_in]. `normed` is what
    // norm() gave, and is overwritten.
    void add_result(View<const float, 2> y, View<float, 2> normed, View<float, 2> x,
                    Exec& exec) const;
    // Scratch of add_result() for N rows.
    size_t workspace_bytes(int64_t n_rows) const;
    const ops::Linear& out() const { return out_; }

  private:
    float norm_eps_ = 0;
    std::optional<ops::NormedResidual> residual_;
    std::vector<float> norm_, post_norm_;  // [M]; post_norm_ empty: none
    ops::Linear out_;
};

}  // namespace bifocal
