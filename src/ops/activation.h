// The gates of feed-forwards: an activation of one half times the other half.
#pragma once

#include <cstdint>
#include <span>

#include "core/view.h"
#include "ops/exec.h"

namespace bifocal::ops {

enum class Activation : uint8_t {
    silu,            // a σ(a) b
    gelu_tanh,       // a Φ(a) b, Φ by its tanh formula
    clamped_swiglu,  // a' σ(1.702 a') (b' + 1), a' = min(a, 7), b' = b within ±7 (gpt-oss)
};

// a = activation(a) * b, element by element.
void gated_activation(Activation activation, std::span<float> a, std::span<const float> b);
// The same for rows; a, b: [N, F]
void gated_activation(Activation activation, View<float, 2> a, View<const float, 2> b, Exec& exec);

}  // namespace bifocal::ops
