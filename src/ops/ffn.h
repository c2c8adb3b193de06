// The feed-forward sublayer: reads the residual stream, norms, gate/up/down or experts, adds its
// result back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ops/activation.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/residual.h"

namespace bifocal::ops {

struct FeedForward {
    std::vector<float> norm;  // [M]
    float norm_eps = 1e-5f;
    Activation activation = Activation::silu;
    Linear gate, up, down;                        // [F, M], [F, M], [M, F]
    std::unique_ptr<Experts> experts;             // instead of these three; null: dense
    std::optional<std::vector<float>> post_norm;  // [M], on the result before it is added (Gemma 3)
    std::optional<NormedResidual> residual;       // none: x += result

    // x: [N, M] residual stream, updated in place.
    void forward(View<float, 2> x, Exec& exec) const;
    size_t workspace_bytes(int64_t n_rows) const;

  private:
    // y = (y if `accumulate`) + what `normed` becomes.
    void transform(View<const float, 2> normed, View<float, 2> y, bool accumulate,
                   Exec& exec) const;
};

}  // namespace bifocal::ops
