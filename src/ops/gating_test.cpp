// The choice of experts against its definition in double, its ties, and what is no number.
#include "ops/gating.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/testing/random_blocks.h"
#include "ops/testing/gating.h"

namespace bifocal::ops {
namespace {

constexpr auto kSigmoid = Gating::Scores::sigmoid;

struct Choice {
    std::vector<int32_t> chosen;
    std::vector<float> weights;
};

Choice choose(const Gating& gating, int64_t n_used, const std::vector<float>& logits,
              const std::vector<float>& correction = {}) {
    Choice choice{std::vector<int32_t>(n_used, -1), std::vector<float>(n_used)};
    std::vector<float> ranks(logits.size());
    choose_experts(gating, logits, correction, ranks, choice.chosen, choice.weights);
    return choice;
}

// Random logits, several hundred times; `spread` of corrections, 0: none.
void judge(const Gating& gating, int64_t n_used, float spread) {
    std::mt19937_64 rng{11};
    for (int i = 0; i < 300; ++i) {
        std::vector<float> logits(24), correction;
        for (float& v : logits) v = 4 * testing::random_unit(rng);
        if (spread > 0) correction.resize(logits.size());
        for (float& v : correction) v = spread * testing::random_unit(rng);
        const std::vector<double> expected =
            testing::reference_weights(gating, n_used, {logits.begin(), logits.end()}, correction);
        const Choice got = choose(gating, n_used, logits, correction);
        ASSERT_TRUE(std::ranges::is_sorted(got.chosen));
        std::vector<double> weights(logits.size(), 0.0);
        for (size_t k = 0; k < got.chosen.size(); ++k) weights[got.chosen[k]] = got.weights[k];
        for (size_t e = 0; e < logits.size(); ++e)
            ASSERT_NEAR(weights[e], expected[e], 1e-6 * gating.scale)
                << "expert " << e << " in draw " << i;
    }
}

TEST(Gating, Softmax) {
    judge({}, 5, 0);
    judge({.sums_to_one = false}, 5, 0);
    judge({.sums_to_one = false, .scale = 1.5f}, 5, 0.7f);
}
TEST(Gating, Sigmoid) {
    judge({.scores = kSigmoid}, 5, 0);
    judge({.scores = kSigmoid, .sums_to_one = false}, 5, 0);
}
TEST(Gating, CorrectionsAreOfRanksAlone) {
    judge({.scores = kSigmoid, .scale = 2.446f}, 5, 0.7f);
    judge({.scores = kSigmoid, .sums_to_one = false, .scale = 2.446f}, 5, 0.7f);
}
TEST(Gating, Groups) {
    for (const int64_t used : {1, 2, 3, 4})
        judge({.scores = kSigmoid, .scale = 2.446f, .n_groups = 4, .n_groups_used = used}, 5, 0.7f);
    judge({.scores = kSigmoid, .sums_to_one = false, .n_groups = 12, .n_groups_used = 5}, 10, 0.7f);
    judge({.n_groups = 4, .n_groups_used = 2}, 5, 0);
}

// Corrections below 0 leave the experts of dropped groups behind the others all the same.
TEST(Gating, NegativeRanksAreAheadOfDroppedGroups) {
    const Gating gating{.scores = kSigmoid, .n_groups = 2, .n_groups_used = 1};
    const Choice choice = choose(gating, 2, {0, 0, 0, 0}, {-3, -3, -2, -4});
    EXPECT_EQ(choice.chosen, (std::vector<int32_t>{0, 1}));  // -6 + 1 both: the first group
    EXPECT_EQ(choice.weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(Gating, TheFirstOfEqualRanksInOrder) {
    const std::vector<float> logits{1, 3, 2, 3, 0, 2};
    const Choice choice = choose({}, 3, logits);
    EXPECT_EQ(choice.chosen, (std::vector<int32_t>{1, 2, 3}));
    EXPECT_NEAR(choice.weights[0] + choice.weights[1] + choice.weights[2], 1, 1e-6);
    EXPECT_NEAR(choice.weights[1] / choice.weights[0], std::exp(-1.0), 1e-6);
    const Choice plain = choose({.sums_to_one = false}, 3, logits);
    EXPECT_LT(plain.weights[0] + plain.weights[1] + plain.weights[2], 0.95);
    EXPECT_EQ(choose({.scores = kSigmoid}, 3, logits).chosen, choice.chosen);
    EXPECT_EQ(choose({.scores = kSigmoid}, 2, {5, 5, 5, 5}).chosen, (std::vector<int32_t>{0, 1}));
}

TEST(Gating, TheFirstOfEqualGroups) {
    const std::vector<float> logits{0, 1, 2, 0, 2, 0, 1, 1};  // groups of two
    const auto chosen = [&](int64_t used) {
        const Gating gating{.scores = kSigmoid, .n_groups = 4, .n_groups_used = used};
        return choose(gating, 2, logits).chosen;
    };
    EXPECT_EQ(chosen(1), (std::vector<int32_t>{6, 7}));  // twice σ(1) is more than σ(2) + σ(0)
    EXPECT_EQ(chosen(2), (std::vector<int32_t>{2, 6}));
    EXPECT_EQ(chosen(3), (std::vector<int32_t>{2, 4}));
}

TEST(Gating, ScoresThatAreAllZero) {
    const Choice choice = choose({.scores = kSigmoid}, 2, {-200, -200, -200});
    EXPECT_EQ(choice.chosen, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(choice.weights, (std::vector<float>{0, 0}));
}

TEST(Gating, NoNumberStillNamesExpertsThatAreThere) {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInf = std::numeric_limits<float>::infinity();
    for (const float odd : {kNaN, kInf, -kInf}) {
        const std::vector<float> logits(6, odd);
        const Choice choice = choose({}, 2, logits);
        EXPECT_EQ(choice.chosen, (std::vector<int32_t>{0, 1}));
        EXPECT_TRUE(std::isnan(choice.weights[0]));
        const Gating grouped{.scores = kSigmoid, .n_groups = 3, .n_groups_used = 1};
        for (const int32_t e : choose(grouped, 2, logits, logits).chosen)
            EXPECT_TRUE(e >= 0 && e < 6) << e;
    }
}

}  // namespace
}  // namespace bifocal::ops
