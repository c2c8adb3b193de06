// The vector kernels of every family: against double, and bit for bit against the portable ones.
#include "ops/vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <random>

#include "core/cpu_features.h"
#include "core/dtype.h"
#include "core/testing/random_blocks.h"

namespace bifocal::ops {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSizes[] = {0, 1, 3, 15, 16, 17, 64, 113, 576};

std::vector<float> random_floats(int64_t n, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = testing::random_unit(rng) * 4;
    return x;
}
std::vector<uint16_t> as_bf16(const std::vector<float>& x) {
    std::vector<uint16_t> bits;
    for (const float v : x) bits.push_back(f32_to_bf16(v));
    return bits;
}
double ulps(float got, double exact) {
    const auto nearest = static_cast<float>(exact);
    const double ulp = std::nextafter(std::fabs(nearest), kInf) - std::fabs(nearest);
    return std::fabs(got - exact) / ulp;
}
// Bits, so that NaNs and zeros compare too; all NaNs count as one.
std::vector<uint32_t> bits_of(const std::vector<float>& x) {
    std::vector<uint32_t> bits;
    for (const float v : x)
        bits.push_back(std::isnan(v) ? 0x7fc00000u : std::bit_cast<uint32_t>(v));
    return bits;
}

void for_each_family(const std::function<void(const KernelSet&)>& f) {
    for (const Isa isa : kIsas) {
        if (!isa_available(isa, cpu_features())) continue;
        SCOPED_TRACE(std::string(isa_name(isa)));
        f(kernel_set(isa));
    }
}

TEST(Vector, DotIsCloseToDoubleAndTheSameEverywhere) {
    for (const int64_t n : kSizes) {
        const auto a = random_floats(n, 1), b = random_floats(n, 2);
        const auto b_half = as_bf16(b);
        double exact = 0, exact_half = 0, size = 0;
        for (int64_t i = 0; i < n; ++i) {
            exact += static_cast<double>(a[i]) * b[i];
            exact_half += static_cast<double>(a[i]) * bf16_to_f32(b_half[i]);
            size += std::fabs(static_cast<double>(a[i]) * b[i]);
        }
        const float first = kPortableKernels.dot(a.data(), b.data(), n);
        const float first_half = kPortableKernels.dot_bf16(a.data(), b_half.data(), n);
        EXPECT_NEAR(first, exact, size * 0x1p-22);
        EXPECT_NEAR(first_half, exact_half, size * 0x1p-22);
        for_each_family([&](const KernelSet& k) {
            EXPECT_EQ(k.dot(a.data(), b.data(), n), first) << n;
            EXPECT_EQ(k.dot_bf16(a.data(), b_half.data(), n), first_half) << n;
        });
    }
}

TEST(Vector, UpdatesTouchExactlyTheirElements) {
    for (const int64_t n : kSizes) {
        const auto x = random_floats(n, 3), y = random_floats(n + 1, 4);
        const auto x_half = as_bf16(x);
        for_each_family([&](const KernelSet& k) {
            auto fused = y, half = y, scaled = y, summed = y;
            k.axpy(0.3f, x.data(), fused.data(), n);
            k.axpy_bf16(0.3f, x_half.data(), half.data(), n);
            k.scale(0.3f, scaled.data(), n);
            k.add(x.data(), summed.data(), n);
            for (int64_t i = 0; i < n; ++i) {
                ASSERT_EQ(fused[i], std::fma(0.3f, x[i], y[i]));
                ASSERT_EQ(half[i], std::fma(0.3f, bf16_to_f32(x_half[i]), y[i]));
                ASSERT_EQ(scaled[i], 0.3f * y[i]);
                ASSERT_EQ(summed[i], x[i] + y[i]);
            }
            for (const auto* result : {&fused, &half, &scaled, &summed}) {
                ASSERT_EQ((*result)[n], y[n]);
            }
        });
    }
}

TEST(Vector, ExpIsWithinAnUlpAndItsSumWithinAFew) {
    std::vector<float> x;
    for (float v = -87.0f; v < 80.0f; v += 0.00731f) x.push_back(v);
    const auto n = static_cast<int64_t>(x.size());
    auto portable = x;
    const float sum = kPortableKernels.exp_sum(portable.data(), n, 0.0f);
    double worst = 0, total = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        worst = std::max(worst, ulps(portable[i], exact));
        total += exact;
    }
    EXPECT_LT(worst, 1.0);
    EXPECT_NEAR(sum / total, 1.0, 1e-6);
    for_each_family([&](const KernelSet& k) {
        auto y = x;
        EXPECT_EQ(k.exp_sum(y.data(), n, 0.0f), sum);
        ASSERT_EQ(bits_of(y), bits_of(portable));
    });
}

TEST(Vector, ExpAtTheEdges) {
    // Subnormal results included: -103 is e^-103 = 1.85e-45, the smallest step is 1.4e-45.
    const std::vector<float> x{0.0f,   -0.0f,  1.0f,    -87.5f, -95.0f, -103.0f, -104.5f,
                               -1e30f, -kInf,  88.7f,   88.8f,  1e30f,  kInf,    kNaN,
                               1e-30f, -1e-8f, -127.0f, 0.5f,   -103.9f};
    for_each_family([&](const KernelSet& k) {
        auto y = x;
        k.exp_sum(y.data(), static_cast<int64_t>(y.size()), 0.0f);
        for (size_t i = 0; i < x.size(); ++i) {
            if (std::isnan(x[i])) {
                EXPECT_TRUE(std::isnan(y[i]));
                continue;
            }
            const double exact = std::exp(static_cast<double>(x[i]));
            if (exact > std::numeric_limits<float>::max()) {
                EXPECT_EQ(y[i], kInf) << x[i];
            } else {
                EXPECT_NEAR(y[i], exact, exact * 0x1p-23 + 0x1p-149) << x[i];
            }
        }
        // In a softmax: the maximum gets 1, a masked score gets nothing.
        std::vector<float> scores{3.0f, -kInf, 2.0f};
        EXPECT_NEAR(k.exp_sum(scores.data(), 3, 3.0f), 1 + std::exp(-1.0), 1e-6);
        EXPECT_EQ(scores[0], 1.0f);
        EXPECT_EQ(scores[1], 0.0f);
    });
}

TEST(Vector, MaxPassesOverNaN) {
    for_each_family([&](const KernelSet& k) {
        EXPECT_EQ(k.max(nullptr, 0), -kInf);
        for (const int64_t n : {1, 5, 16, 40}) {
            for (int64_t at = 0; at < n; ++at) {
                std::vector<float> x(static_cast<size_t>(n), -2.0f);
                if (n > 2) x[(at + 1) % n] = kNaN;
                x[at] = 7.0f;
                EXPECT_EQ(k.max(x.data(), n), 7.0f) << at << " of " << n;
            }
        }
    });
}

TEST(Vector, Bf16RoundsToNearestEvenAndKeepsNaN) {
    std::vector<float> x = random_floats(1000, 6);
    for (const float special : {0.0f, -0.0f, kInf, -kInf, 3.4e38f, 1e-40f}) x.push_back(special);
    x.push_back(std::bit_cast<float>(0x3f808000u));  // ties
    x.push_back(std::bit_cast<float>(0x3f818000u));
    x.push_back(std::bit_cast<float>(0xff800001u));  // a NaN whose high half looks infinite
    const auto expected = as_bf16(x);
    for_each_family([&](const KernelSet& k) {
        std::vector<uint16_t> y(x.size());
        k.to_bf16(x.data(), y.data(), static_cast<int64_t>(x.size()));
        ASSERT_EQ(y, expected);
    });
}

// An error of the gate is that of e^x, one addition, one division and one product.
TEST(Vector, GatesAreWithinAFewUlpsOfDouble) {
    std::vector<float> a, b;
    for (float v = -60.0f; v < 60.0f; v += 0.0137f) {
        a.push_back(v);
        b.push_back(1.0f + 0.01f * v);
    }
    const auto n = static_cast<int64_t>(a.size());
    const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
    const auto gelu = [](double x) {
        const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return x / (1 + std::exp(-2 * u));
    };
    const auto clamped_swiglu = [](double x, double y) {
        const double gate = std::min(x, 7.0);
        return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(y, -7.0, 7.0) + 1);
    };
    // Past both limits; b + 1 loses digits near -1.
    auto wide = b;
    for (float& v : wide) v *= 9;
    auto first_silu = a, first_gelu = a, first_clamped = a;
    kPortableKernels.silu_mul(first_silu.data(), b.data(), n);
    kPortableKernels.gelu_tanh_mul(first_gelu.data(), b.data(), n);
    kPortableKernels.clamped_swiglu_mul(first_clamped.data(), wide.data(), n);
    for (int64_t i = 0; i < n; ++i) {
        EXPECT_LT(ulps(first_silu[i], silu(a[i]) * b[i]), 4.0) << a[i];
        // e^(-2u) magnifies the rounding of its argument.
        const double exact = gelu(a[i]) * b[i];
        EXPECT_NEAR(first_gelu[i], exact, std::fabs(exact) * 2e-5 + 1e-30) << a[i];
        if (a[i] > -3) {
            EXPECT_LT(ulps(first_gelu[i], exact), 16.0) << a[i];
        }
        const double clamped = clamped_swiglu(a[i], wide[i]);
        EXPECT_NEAR(first_clamped[i], clamped, std::fabs(clamped) * 1e-5 + 1e-30) << a[i];
        if (a[i] > -3) {
            EXPECT_LT(ulps(first_clamped[i], clamped), 8.0) << a[i];
        }
    }
    for_each_family([&](const KernelSet& k) {
        auto x = a;
        k.silu_mul(x.data(), b.data(), n);
        ASSERT_EQ(bits_of(x), bits_of(first_silu));
        x = a;
        k.gelu_tanh_mul(x.data(), b.data(), n);
        ASSERT_EQ(bits_of(x), bits_of(first_gelu));
        x = a;
        k.clamped_swiglu_mul(x.data(), wide.data(), n);
        ASSERT_EQ(bits_of(x), bits_of(first_clamped));
        std::vector<float> edge{kNaN, kInf, -200.0f, 200.0f};
        const std::vector<float> ones(4, 1.0f);
        k.silu_mul(edge.data(), ones.data(), 4);
        EXPECT_TRUE(std::isnan(edge[0]));
        EXPECT_EQ(edge[1], kInf);
        EXPECT_EQ(edge[2], 0.0f);
        EXPECT_EQ(edge[3], 200.0f);
        std::vector<float> gate{kNaN, 1.0f, kInf, 1.0f}, up{1.0f, kNaN, -kInf, kInf};
        k.clamped_swiglu_mul(gate.data(), up.data(), 4);
        EXPECT_TRUE(std::isnan(gate[0]) && std::isnan(gate[1]));
        EXPECT_NEAR(gate[2], clamped_swiglu(7, -7), 1e-4);
        EXPECT_NEAR(gate[3], clamped_swiglu(1, 7), 1e-4);
    });
}

TEST(Vector, CosAndSinAreRoundedFromDouble) {
    std::vector<double> inv_freq;
    for (int j = 0; j < 37; ++j) inv_freq.push_back(std::pow(1e5, -j / 37.0));
    const auto n = static_cast<int64_t>(inv_freq.size());
    std::vector<float> first(2 * inv_freq.size());
    for (const double pos : {0.0, 1.0, 2.0, 3.0, 5.0, 100.0, 4097.0, 31999.0, 1e6, 1e9, -7.0}) {
        kPortableKernels.cos_sin(inv_freq.data(), n, pos, 1.25, first.data(), first.data() + n);
        for (int64_t j = 0; j < n; ++j) {
            const double angle = pos * inv_freq[j];
            ASSERT_NEAR(first[j], 1.25 * std::cos(angle), 0x1p-24 + 1e-9) << angle;
            ASSERT_NEAR(first[n + j], 1.25 * std::sin(angle), 0x1p-24 + 1e-9) << angle;
        }
        for_each_family([&](const KernelSet& k) {
            std::vector<float> y(first.size());
            k.cos_sin(inv_freq.data(), n, pos, 1.25, y.data(), y.data() + n);
            ASSERT_EQ(y, first);
            auto a = random_floats(n, 9), b = random_floats(n, 10);
            const auto a0 = a, b0 = b;
            k.rotate(y.data(), y.data() + n, a.data(), b.data(), n);
            for (int64_t j = 0; j < n; ++j) {
                ASSERT_EQ(a[j], a0[j] * y[j] - b0[j] * y[n + j]);
                ASSERT_EQ(b[j], b0[j] * y[j] + a0[j] * y[n + j]);
            }
        });
    }
}

TEST(Vector, QuantisedActivationsAreTheSameEverywhereAndRoundToNearest) {
    auto x = random_floats(32 * 8, 7);
    for (int i = 0; i < 32; ++i) x[i] = 0;                     // a zero block
    for (int i = 32; i < 64; ++i) x[i] = i == 40 ? -5.0f : 0;  // one value
    for (int i = 64; i < 96; ++i) x[i] *= 1e-36f;              // too small: counts as zero
    x[100] = kNaN;
    x[150] = -kInf;
    std::vector<ActivationBlock> first(8);
    kPortableKernels.quantise(x.data(), 8, first.data(), 1);
    for_each_family([&](const KernelSet& k) {
        std::vector<ActivationBlock> blocks(16);
        std::memset(blocks.data(), 0x55, blocks.size() * sizeof(ActivationBlock));
        k.quantise(x.data(), 8, blocks.data(), 2);
        for (int b = 0; b < 8; ++b) {
            const ActivationBlock& block = blocks[2 * b];
            ASSERT_EQ(std::memcmp(block.q, first[b].q, 32), 0) << b;
            ASSERT_EQ(bits_of({block.d, block.sum}), bits_of({first[b].d, first[b].sum})) << b;
            ASSERT_EQ(block.neg_sum, first[b].neg_sum);
            ASSERT_EQ(block.neg_sum_low, first[b].neg_sum_low);
        }
    });
    for (int b = 0; b < 8; ++b) {
        const ActivationBlock& block = first[b];
        if (b == 3 || b == 4) {
            EXPECT_TRUE(std::isnan(block.d) && std::isnan(block.sum));
            continue;
        }
        int sum = 0, low = 0;
        for (int i = 0; i < 32; ++i) {
            sum += block.q[i];
            if (i < 16) low += block.q[i];
            EXPECT_GE(block.q[i], -127);
            EXPECT_LE(std::fabs(block.q[i] * block.d - x[32 * b + i]), 0.5001f * block.d + 1e-30f);
        }
        EXPECT_EQ(block.neg_sum, -sum);
        EXPECT_EQ(block.neg_sum_low, -low);
        EXPECT_EQ(block.sum, block.d * static_cast<float>(sum));
    }
    EXPECT_EQ(first[0].d, 0.0f);
    EXPECT_EQ(first[2].d, 0.0f);
    EXPECT_EQ(first[1].q[8], -127);
}

}  // namespace
}  // namespace bifocal::ops
