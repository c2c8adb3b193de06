// The one comparison rule for kernels: the error of the fast path against the definition in double
// is at most twice the error of plain code in the same precision, plus a few ulps of the output's
// scale. NaN and infinity are compared first; the worst coordinate is named. docs/numerics.md
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/check.h"

namespace bifocal::testing {

struct Comparison {
    bool ok = false;
    std::string message;  // one line: what was compared, how far apart, where
    double fast_error = 0;
    double plain_error = 0;
    double scale = 0;  // largest |reference|

    explicit operator bool() const { return ok; }
};

// Ulps that the output may be off by beside the plain error. `ulp` is relative to the output's
// scale; FP32 rounding by default.
struct ErrorFloor {
    double ulps = 4;
    double ulp = 0x1p-24;
};

inline std::string coordinate(int64_t index, std::span<const int64_t> shape) {
    std::vector<int64_t> at(shape.size());
    for (size_t d = shape.size(); d-- > 0;) {
        at[d] = index % shape[d];
        index /= shape[d];
    }
    return fmt::format("[{}]", fmt::join(at, ", "));
}

// fast, plain, reference: arrays of `shape`, outermost first.
inline Comparison compare(std::span<const float> fast, std::span<const float> plain,
                          std::span<const double> reference, std::span<const int64_t> shape,
                          ErrorFloor floor = {}) {
    BIFOCAL_CHECK(fast.size() == reference.size() && plain.size() == reference.size(),
                  "compare: {}, {} and {} elements", fast.size(), plain.size(), reference.size());
    Comparison c;
    double dot = 0, fast_norm = 0, reference_norm = 0;
    int64_t worst = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        const double f = fast[i], p = plain[i], r = reference[i];
        const auto at = static_cast<int64_t>(i);
        if (!std::isfinite(f) || !std::isfinite(r)) {
            if ((std::isnan(f) && std::isnan(r)) || f == r) continue;
            c.message =
                fmt::format("{} where the reference has {}, at {}", f, r, coordinate(at, shape));
            return c;
        }
        if (std::fabs(f - r) > c.fast_error) {
            c.fast_error = std::fabs(f - r);
            worst = at;
        }
        if (std::isfinite(p)) c.plain_error = std::max(c.plain_error, std::fabs(p - r));
        c.scale = std::max(c.scale, std::fabs(r));
        dot += f * r;
        fast_norm += f * f;
        reference_norm += r * r;
    }
    const double limit = 2 * c.plain_error + floor.ulps * floor.ulp * c.scale;
    const double norms = std::sqrt(fast_norm * reference_norm);
    c.ok = c.fast_error <= limit;
    c.message = fmt::format(
        "error {:.3g} at {}, limit {:.3g} (plain error {:.3g}, scale {:.3g}), cosine {:.9f}",
        c.fast_error, coordinate(worst, shape), limit, c.plain_error, c.scale,
        norms > 0 ? dot / norms : 1.0);
    return c;
}

}  // namespace bifocal::testing
