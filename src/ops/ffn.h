// The feed-forward sublayer: reads the residual stream, norms, gate/up/down, adds its result back.
#pragma once

#include <optional>
#include <vector>

#include "ops/linear.h"

namespace bifocal::ops {

enum class Activation { silu, gelu_tanh };

struct FeedForward {
    std::vector<float> norm;  // [M]
    float norm_eps = 1e-5f;
    Activation activation = Activation::silu;
    Linear gate, up, down;                        // [F, M], [F, M], [M, F]
    std::optional<std::vector<float>> post_norm;  // [M], on the result before it is added (Gemma 3)

    // x: [N, M] residual stream, updated in place.
    void forward(View<float, 2> x, Exec& exec) const;
    size_t workspace_bytes(int64_t n_rows) const;
};

// a = activation(a) * b, element by element.
void gated_activation(Activation activation, std::span<float> a, std::span<const float> b);

}  // namespace bifocal::ops
