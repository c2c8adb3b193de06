#include "runtime/scoring.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/checksum.h"
#include "runtime/drift.h"

namespace bifocal {
namespace {

TEST(Scoring, LogProbabilitiesSumToOne) {
    const std::vector<float> logits = {1000, 1001, 998.5f, 990};
    double total = 0;
    for (int32_t i = 0; i < 4; ++i) total += std::exp(log_probability(logits, i));
    EXPECT_NEAR(total, 1, 1e-6);
    EXPECT_NEAR(log_probability(std::vector<float>{0, 0}, 1), -std::log(2), 1e-12);
}

TEST(Scoring, DivergenceOfKnownCoins) {
    const std::vector<float> half = {0, 0}, quarter = {0, std::log(3.0f)};
    EXPECT_NEAR(kl_divergence(half, quarter), 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-6);
    EXPECT_EQ(kl_divergence(half, half), 0);
    EXPECT_NEAR(kl_divergence(half, std::vector<float>{7, 7}), 0, 1e-12);  // shifts change nothing
}

TEST(Scoring, AverageAndItsError) {
    Average average;
    for (const double x : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) average.add(x);
    EXPECT_DOUBLE_EQ(average.mean(), 5);
    EXPECT_NEAR(average.standard_error(), std::sqrt(32.0 / 7 / 8), 1e-12);
    EXPECT_EQ(Average().standard_error(), 0);
}

TEST(Scoring, Quantiles) {
    const std::vector<double> values = {1, 2, 3, 4};
    EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
    EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
    EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
    EXPECT_DOUBLE_EQ(quantile(std::vector<double>{5}, 0.25), 5);
}

TEST(Drift, CountsWhatDiffers) {
    Drift drift;
    drift.add(std::vector<float>{1, 2, 3}, std::vector<float>{1, 2, 3});
    drift.add(std::vector<float>{1, 2, 3}, std::vector<float>{1, 3.5f, 3});
    EXPECT_EQ(drift.tokens(), 2);
    EXPECT_EQ(drift.bit_equal, 1);
    EXPECT_EQ(drift.same_top, 1);
    EXPECT_DOUBLE_EQ(drift.max_abs, 1.5);
    EXPECT_GT(drift.max_kl, 0);
    EXPECT_EQ(drift.not_finite, 0);
    drift.add(std::vector<float>{1, 2, 3}, std::vector<float>{1, NAN, 3});
    EXPECT_EQ(drift.not_finite, 1);
}

TEST(Checksum, PiecesGiveTheSumOfTheWhole) {
    std::vector<std::byte> bytes;
    for (int i = 0; i < 101; ++i) bytes.push_back(static_cast<std::byte>(i * 37));
    const uint64_t whole = checksum(bytes);
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
        Checksum sum;
        sum.add(std::span(bytes).first(cut));
        sum.add(std::span(bytes).subspan(cut));
        EXPECT_EQ(sum.value(), whole) << cut;
    }
}

TEST(Checksum, SeesLengthAndOrder) {
    const std::vector<std::byte> none, zero(1), zeros(8);
    EXPECT_NE(checksum(none), checksum(zero));
    EXPECT_NE(checksum(zero), checksum(zeros));
    std::vector<std::byte> a(64), b(64);
    a[0] = b[32] = std::byte{1};
    EXPECT_NE(checksum(a), checksum(b));
}

// Fixed by docs/snapshot.md: files written today must be readable tomorrow.
TEST(Checksum, KnownValues) {
    const std::string text = "bifocal";
    EXPECT_EQ(checksum(std::as_bytes(std::span(text))), 0xf2e036066596eaccull);
    EXPECT_EQ(checksum(std::span<const std::byte>()), 0xdaaa9ad1fca1a52eull);
    std::vector<std::byte> hundred(100);
    for (size_t i = 0; i < hundred.size(); ++i) hundred[i] = static_cast<std::byte>(i);
    EXPECT_EQ(checksum(hundred), 0x1c3c7aad45c0cfe5ull);
}

}  // namespace
}  // namespace bifocal
