// Primitives on short vectors for the insides of mixers, on the kernels chosen for this machine.
// Sums run in one fixed order (16 lanes, folded by halves), the same on every kernel family: equal
// input gives equal bits everywhere. bf16 operands are raw bits.
#pragma once

#include <cstdint>
#include <span>

#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {

inline float dot(std::span<const float> a, const float* b) {
    return kernels().dot(a.data(), b, static_cast<int64_t>(a.size()));
}
inline float dot(std::span<const float> a, const uint16_t* bf16_b) {
    return kernels().dot_bf16(a.data(), bf16_b, static_cast<int64_t>(a.size()));
}

// y += w * x
inline void axpy(float w, const float* x, std::span<float> y) {
    kernels().axpy(w, x, y.data(), static_cast<int64_t>(y.size()));
}
inline void axpy(float w, const uint16_t* bf16_x, std::span<float> y) {
    kernels().axpy_bf16(w, bf16_x, y.data(), static_cast<int64_t>(y.size()));
}

// x *= w
inline void scale(float w, std::span<float> x) {
    kernels().scale(w, x.data(), static_cast<int64_t>(x.size()));
}
// y += x
inline void add(std::span<const float> x, std::span<float> y) {
    BIFOCAL_CHECK(x.size() == y.size(), "add: {} and {} elements", x.size(), y.size());
    kernels().add(x.data(), y.data(), static_cast<int64_t>(y.size()));
}

// Largest element; -infinity of none. NaNs are passed over.
inline float max(std::span<const float> x) {
    return kernels().max(x.data(), static_cast<int64_t>(x.size()));
}
// x = e^(x - max) in place; returns the sum. e^x is within 1 ulp; -infinity gives 0.
inline float exp_sum(std::span<float> x, float max) {
    return kernels().exp_sum(x.data(), static_cast<int64_t>(x.size()), max);
}

// y = x rounded to bf16, nearest even; a NaN stays a quiet NaN.
inline void to_bf16(std::span<const float> x, uint16_t* y) {
    kernels().to_bf16(x.data(), y, static_cast<int64_t>(x.size()));
}

}  // namespace bifocal::ops
