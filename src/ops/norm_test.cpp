#include "ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/testing/random_blocks.h"
#include "ops/testing/exec.h"

namespace bifocal::ops {
namespace {

std::vector<float> random_floats(int64_t n, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = testing::random_unit(rng);
    return x;
}

// Error against double at most twice that of the plain FP32 loop, plus a few ulps.
TEST(RmsNorm, AgreesWithDouble) {
    for (const int64_t n : {1, 7, 64, 576, 1023}) {
        const auto x = random_floats(n, 1), w = random_floats(n, 2);
        std::vector<float> y(static_cast<size_t>(n));
        rms_norm_row(x, w, 1e-5f, y);
        double sum = 0;
        float plain_sum = 0;
        for (const float v : x) {
            sum += static_cast<double>(v) * v;
            plain_sum += v * v;
        }
        const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5f);
        const float plain_scale = 1 / std::sqrt(plain_sum / static_cast<float>(n) + 1e-5f);
        double worst = 0, worst_plain = 0, size = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double exact = x[i] * scale * w[i];
            worst = std::max(worst, std::fabs(y[i] - exact));
            worst_plain = std::max(worst_plain, std::fabs(x[i] * plain_scale * w[i] - exact));
            size = std::max(size, std::fabs(exact));
        }
        EXPECT_LE(worst, 2 * worst_plain + 4 * 0x1p-24 * size) << n;
    }
}

TEST(RmsNorm, RowsDoNotDependOnTheirNeighboursAndMayBeUpdatedInPlace) {
    const int64_t n_rows = 37, n = 100;
    auto x = random_floats(n_rows * n, 3);
    const auto w = random_floats(n, 4);
    std::vector<float> expected(x.size());
    for (int64_t t = 0; t < n_rows; ++t) {
        rms_norm_row({x.data() + t * n, 100}, w, 1e-6f, {expected.data() + t * n, 100});
    }
    testing::ExecFor exec(3, 0);
    const View<float, 2> view(x.data(), {n_rows, n});
    rms_norm(view, w, 1e-6f, view, exec.exec);
    EXPECT_EQ(x, expected);
}

TEST(RmsNorm, ZeroStaysZero) {
    std::vector<float> x(40, 0.0f), w(40, 3.0f);
    rms_norm_row(x, w, 1e-5f, x);
    for (const float v : x) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace bifocal::ops
