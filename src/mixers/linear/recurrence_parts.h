// What the two fast forms of the recurrence share.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "mixers/linear/recurrence.h"
#include "ops/kernels/kernels.h"

namespace bifocal::linear {

class Scratch {
  public:
    explicit Scratch(std::span<float> all) : left_(all) {}
    float* take(int64_t n) {
        BIFOCAL_CHECK(n <= std::ssize(left_), "scratch of a recurrence: {} floats of {}", n,
                      left_.size());
        float* const begin = left_.data();
        left_ = left_.subspan(static_cast<size_t>(n));
        return begin;
    }

  private:
    std::span<float> left_;
};

// What token t's output for query head i is divided by, eq. (4); den: s n·q, m: of the stabiliser,
// 0 without one.
inline float divisor(const Recurrence& rec, const Tokens<float>& x, int64_t t, int64_t i, float den,
                     float m) {
    if (rec.normaliser == Normaliser::apart) {
        x.den[t * x.den_row + i] = den;
        return 1;
    }
    const float floor = rec.normaliser == Normaliser::max_abs ? std::exp(-m) : 0.0f;
    return std::max(std::fabs(den), floor) + rec.eps;
}

inline float write_strength(const Recurrence& rec, const Tokens<float>& x, int64_t t) {
    if (x.w) return x.w[t * x.w_row];
    return rec.has_stabiliser() ? 0.0f : 1.0f;
}

inline void multiply(const ops::SmallProduct& product) {
    ops::kernels().small_product(product);
}

}  // namespace bifocal::linear
