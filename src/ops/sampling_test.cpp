#include "ops/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace bifocal::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Every stage off, temperature 1.
SamplingOptions plain() {
    return {.temperature = 1.0f,
            .top_k = 0,
            .top_p = 1.0f,
            .min_p = 0.0f,
            .repeat_penalty = 1.0f,
            .repeat_last_n = 64,
            .seed = 7};
}

// How often each token is drawn out of n.
std::map<int32_t, int> draw(const SamplingOptions& options, const std::vector<float>& logits,
                            int n) {
    Sampler sampler(options);
    std::map<int32_t, int> counts;
    for (int i = 0; i < n; ++i) {
        auto copy = logits;
        ++counts[sampler.sample(copy)];
    }
    return counts;
}
std::set<int32_t> drawn(const SamplingOptions& options, const std::vector<float>& logits) {
    std::set<int32_t> tokens;
    for (const auto& [token, count] : draw(options, logits, 3000)) tokens.insert(token);
    return tokens;
}
std::vector<float> logs(const std::vector<double>& p) {
    std::vector<float> x;
    for (const double v : p) x.push_back(static_cast<float>(std::log(v)) + 3.0f);
    return x;
}

TEST(Argmax, LowestIndexOnTiesAndNeverNaN) {
    EXPECT_EQ(argmax(std::vector<float>{1, 5, 2, 5}), 1);
    EXPECT_EQ(argmax(std::vector<float>{kNaN, -3, kNaN, -2}), 3);
    EXPECT_EQ(argmax(std::vector<float>{kNaN, kNaN}), 0);
    EXPECT_EQ(argmax(std::vector<float>{-kInf, -kInf}), 0);
    std::vector<float> many(1000, -1.0f);
    many[777] = many[900] = 0.0f;
    EXPECT_EQ(argmax(many), 777);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
    const std::vector<double> p{0.1, 0.4, 0.2, 0.3};
    const int n = 40000;
    const auto counts = draw(plain(), logs(p), n);
    for (int i = 0; i < 4; ++i) {
        const double sigma = std::sqrt(p[i] * (1 - p[i]) / n);
        EXPECT_NEAR(counts.at(i) / static_cast<double>(n), p[i], 5 * sigma);
    }
    // Temperature 2 takes square roots.
    auto hot = plain();
    hot.temperature = 2.0f;
    double total = 0;
    for (const double v : p) total += std::sqrt(v);
    const auto hot_counts = draw(hot, logs(p), n);
    for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(hot_counts.at(i) / static_cast<double>(n), std::sqrt(p[i]) / total, 0.015);
    }
}

TEST(Sampler, EachFilterKeepsWhatItSays) {
    const auto logits = logs({0.05, 0.4, 0.15, 0.3, 0.1});
    auto o = plain();
    o.top_k = 2;
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1, 3}));
    o = plain();
    o.top_p = 0.71f;  // 0.4 + 0.3 is not enough
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1, 2, 3}));
    o.top_p = 0.69f;
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1, 3}));
    o.top_p = 0.0f;  // the best always stays
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1}));
    o = plain();
    o.min_p = 0.3f;  // of 0.4: 0.12
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1, 2, 3}));
    // Filters look at the probabilities before temperature.
    o.temperature = 100.0f;
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1, 2, 3}));
    // top-p runs on what top-k left: 0.4 / 0.7 = 0.57.
    o = plain();
    o.top_k = 2;
    o.top_p = 0.5f;
    EXPECT_EQ(drawn(o, logits), (std::set<int32_t>{1}));
}

TEST(Sampler, RepeatPenaltyCountsATokenOnceAndForgets) {
    auto o = plain();
    o.temperature = 0;
    o.repeat_penalty = 2.0f;
    o.repeat_last_n = 2;
    Sampler sampler(o);
    std::vector<float> logits{3.0f, 5.0f, -1.0f, 2.9f};
    auto copy = logits;
    EXPECT_EQ(sampler.sample(copy), 1);
    sampler.accept(1);
    sampler.accept(1);
    copy = logits;
    EXPECT_EQ(sampler.sample(copy), 0);
    EXPECT_EQ(copy[1], 2.5f);  // once, though it stands twice
    sampler.accept(2);
    copy = logits;
    sampler.sample(copy);
    EXPECT_EQ(copy[2], -2.0f);  // a negative logit moves down
    sampler.accept(0);
    copy = logits;
    EXPECT_EQ(sampler.sample(copy), 1);  // two others since: forgotten
}

TEST(Sampler, SameSeedSameTokensAndACopyGoesOnAlike) {
    SamplingOptions o;
    o.seed = 123;
    std::vector<float> logits(500);
    for (size_t i = 0; i < logits.size(); ++i) {
        logits[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * 4);
    }
    Sampler a(o), b(o);
    std::vector<int32_t> first;
    for (int i = 0; i < 50; ++i) {
        auto x = logits, y = logits;
        const int32_t token = a.sample(x);
        a.accept(token);
        first.push_back(token);
        EXPECT_EQ(b.sample(y), token);
        b.accept(token);
    }
    Sampler copy = a;
    for (int i = 0; i < 50; ++i) {
        auto x = logits, y = logits;
        EXPECT_EQ(a.sample(x), copy.sample(y));
    }
    EXPECT_GT(std::set<int32_t>(first.begin(), first.end()).size(), 5u);
    // The same on every machine: written down once.
    EXPECT_EQ(std::vector<int32_t>(first.begin(), first.begin() + 8),
              (std::vector<int32_t>{485, 448, 38, 293, 293, 400, 448, 145}));
    o.seed = 124;
    Sampler other(o);
    std::vector<int32_t> second;
    for (int i = 0; i < 50; ++i) {
        auto x = logits;
        second.push_back(other.sample(x));
        other.accept(second.back());
    }
    EXPECT_NE(first, second);
}

TEST(Sampler, OddLogitsStillGiveAToken) {
    const auto sample = [](std::vector<float> logits) { return Sampler(plain()).sample(logits); };
    EXPECT_EQ(sample({kNaN, -kInf, 1.0f}), 2);
    EXPECT_EQ(sample({-kInf, -kInf}), 0);
    EXPECT_EQ(sample({0.0f, kInf, 3.0f}), 1);
    EXPECT_EQ(sample({0.5f}), 0);
}

}  // namespace
}  // namespace bifocal::ops
