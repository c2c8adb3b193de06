// RMSNorm and RoPE of one row, there and back.
#pragma once

#include <cmath>

#include "ops/rope.h"

namespace bifocal::training {

// y = x / rms(x) · (weight + offset); y may be x.
template <class R>
void rms_norm_row(const R* x, const R* weight, R offset, R eps, int64_t n, R* y) {
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    const R scale = 1 / std::sqrt(sum / static_cast<R>(n) + eps);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * (weight[i] + offset);
}

// dx += J dy, dweight += dy ∘ x / rms(x), for y of the above.
template <class R>
void rms_norm_row_backward(const R* x, const R* weight, R offset, R eps, int64_t n, const R* dy,
                           R* dx, R* dweight) {
    R sum = 0, along = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    const R scale = 1 / std::sqrt(sum / static_cast<R>(n) + eps);
    for (int64_t i = 0; i < n; ++i) {
        along += dy[i] * (weight[i] + offset) * x[i];
        dweight[i] += dy[i] * x[i] * scale;
    }
    along *= scale * scale / static_cast<R>(n);
    for (int64_t i = 0; i < n; ++i) dx[i] += scale * (dy[i] * (weight[i] + offset) - x[i] * along);
}

// cos and sin of every pair at a position, angles in double. out: cos, then sin, [2, rotary / 2]
template <class R>
void find_angles(const ops::RopeTable& table, int64_t pos, R* out) {
    const int64_t half = table.rotary_dim / 2;
    for (int64_t j = 0; j < half; ++j) {
        const double angle = static_cast<double>(pos) * table.inv_freq[j];
        out[j] = static_cast<R>(std::cos(angle) * table.attention_factor);
        out[half + j] = static_cast<R>(std::sin(angle) * table.attention_factor);
    }
}

// Turns one head in place; is_back: by the transposed matrix, as gradients go.
template <class R>
void rotate(const ops::RopeTable& table, const R* angles, bool is_back, R* head) {
    const int64_t half = table.rotary_dim / 2;
    const bool is_half = table.style == ops::RopeStyle::half;
    for (int64_t j = 0; j < half; ++j) {
        const R cos = angles[j], sin = is_back ? -angles[half + j] : angles[half + j];
        R& a = head[is_half ? j : 2 * j];
        R& b = head[is_half ? j + half : 2 * j + 1];
        const R turned = a * cos - b * sin;
        b = b * cos + a * sin;
        a = turned;
    }
}

}  // namespace bifocal::training
