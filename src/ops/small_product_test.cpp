// The products of mixers, of every family: against double, the same bits for a row whatever rows
// are beside it, and nothing written outside.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/cpu_features.h"
#include "core/testing/random_blocks.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

constexpr float kUntouched = -77;

std::vector<float> random_floats(int64_t n, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = testing::random_unit(rng);
    return x;
}

// Columns around whole vectors, pairs of them, and the stretches of 64 that a single row takes.
TEST(SmallProduct, IsCloseToDoubleAndStaysInItsColumns) {
    constexpr int64_t kRows = 9, kGap = 3;
    for (const Isa isa : kIsas) {
        if (!isa_available(isa, cpu_features())) continue;
        const KernelSet& kernels = kernel_set(isa);
        for (const int64_t columns :
             {1, 15, 16, 17, 32, 33, 48, 49, 50, 63, 64, 65, 80, 112, 113, 128, 130}) {
            for (const int64_t inner : {1, 2, 7, 40}) {
                const std::vector<float> a = random_floats(kRows * (inner + kGap), 1 + columns);
                const std::vector<float> b = random_floats(inner * (columns + kGap), 2 + inner);
                const int64_t c_row = columns + kGap;
                for (const bool accumulate : {false, true}) {
                    std::vector<float> all(static_cast<size_t>(kRows * c_row), kUntouched);
                    const auto run = [&](int64_t first, int64_t n, std::vector<float>& c) {
                        kernels.small_product({n, columns, inner, a.data() + first * (inner + kGap),
                                               inner + kGap, 1, b.data(), columns + kGap,
                                               c.data() + first * c_row, c_row, accumulate});
                    };
                    run(0, kRows, all);
                    std::vector<float> single(all.size(), kUntouched);
                    for (int64_t r = 0; r < kRows; ++r) run(r, 1, single);
                    ASSERT_EQ(single, all) << isa_name(isa) << ", " << columns << " columns";
                    for (int64_t r = 0; r < kRows; ++r) {
                        for (int64_t j = 0; j < c_row; ++j) {
                            double sum = accumulate ? kUntouched : 0.0, size = std::fabs(sum);
                            for (int64_t k = 0; k < inner && j < columns; ++k) {
                                const double term =
                                    static_cast<double>(a[r * (inner + kGap) + k]) *
                                    static_cast<double>(b[k * (columns + kGap) + j]);
                                sum += term;
                                size += std::fabs(term);
                            }
                            if (j >= columns) sum = kUntouched;
                            ASSERT_NEAR(all[r * c_row + j], sum, 1e-6 * size)
                                << isa_name(isa) << ", row " << r << ", column " << j << " of "
                                << columns << ", " << inner << " terms";
                        }
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace bifocal::ops
