// Laws about training: the training form computes what the definition says, and its gradients are
// those of the definition, however a sequence is cut.
#include "mixers/contract/gradient_check.h"

namespace bifocal::contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Law, Training, ::testing::ValuesIn(cases_that(true)), case_name);

// The comparison rule on what is usual of many draws, the median of each of its errors. In a single
// draw, the norm of a head that is nearly 0 may blow gradients up; its worst errors are then those
// of one or two elements, and which of two good paths is luckier there says nothing.
constexpr uint64_t kDraws = 12;

class Draws {
  public:
    void add(std::span<const float> fast, std::span<const float> plain,
             std::span<const double> truth) {
        const int64_t shape[] = {std::ssize(truth)};
        const testing::Comparison c = testing::compare(fast, plain, truth, shape);
        fast_.push_back(c.fast_error);
        plain_.push_back(c.plain_error);
        scale_.push_back(c.scale);
        for (const float x : fast) is_finite_ = is_finite_ && std::isfinite(x);
    }
    ::testing::AssertionResult are_good() {
        const double fast = median(fast_), plain = median(plain_), scale = median(scale_);
        const testing::ErrorFloor floor;
        if (is_finite_ && fast <= 2 * plain + floor.ulps * floor.ulp * scale)
            return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure()
               << "error " << fast << ", plain error " << plain << ", scale " << scale
               << (is_finite_ ? "" : ", not finite");
    }

  private:
    static double median(std::vector<double>& x) {
        std::ranges::nth_element(x, x.begin() + std::ssize(x) / 2);
        return x[x.size() / 2];
    }
    std::vector<double> fast_, plain_, scale_;
    bool is_finite_ = true;
};

TEST(MixerContractSuite, SaysWhichMixersHaveNoBackward) {
    std::string without;
    for (const ContractCase& c : cases_that(false)) {
        const TrainingForms forms = std::move(make_mixer(c.spec, c.context)).value()->training();
        EXPECT_FALSE(forms.fast || forms.plain || forms.exact) << c.name << " has one after all";
        without += c.spec.kind + "_" + c.name + " ";
    }
    RecordProperty("without_backward", without);
    for (const ContractCase& c : cases_that(true)) {
        const TrainingForms forms = std::move(make_mixer(c.spec, c.context)).value()->training();
        EXPECT_TRUE(forms.fast && forms.plain && forms.exact) << c.name << " has none";
    }
}

}  // namespace

TEST_P(Training, ForwardIsTheDefinition) {
    Draws draws;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
        const TrainingSubject subject(GetParam(), seed, 2);
        const TrainingForms forms = subject.mixer().training();
        const std::vector<int64_t> cuts = cuts_of(seed, subject.n_tokens());
        std::vector<double> exact;
        std::vector<float> plain, fast;
        subject.run(*forms.exact, cuts, 1, &exact);
        subject.run(*forms.plain, cuts, 1, &plain);
        subject.run(*forms.fast, cuts, 2, &fast);
        draws.add(fast, plain, exact);
        if (seed > 3) continue;
        const std::vector<double> truth = subject.definition(subject.numbers());
        for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(exact[i], truth[i], 1e-10) << i;
    }
    EXPECT_TRUE(draws.are_good());
}

// Whole tensors along random directions; gradient_slow_test.cpp goes through their elements.
TEST_P(Training, GradientsAgreeWithFiniteDifferences) {
    for (const uint64_t seed : {1, 2, 3}) check_gradients(GetParam(), seed, 0, 1);
}

TEST_P(Training, FloatGradientsAgreeWithDouble) {
    std::map<std::string, Draws, std::less<>> draws;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
        const TrainingSubject subject(GetParam(), seed, 2);
        const TrainingForms forms = subject.mixer().training();
        const std::vector<int64_t> cuts = cuts_of(seed, subject.n_tokens());
        const auto plain = subject.run(*forms.plain, cuts).of;
        const auto fast = subject.run(*forms.fast, cuts, 2).of;
        for (const auto& [name, truth] : subject.run(*forms.exact, cuts).of)
            draws[name].add(fast.at(name), plain.at(name), truth);
    }
    for (auto& [name, of_name] : draws) EXPECT_TRUE(of_name.are_good()) << name;
}

TEST_P(Training, SameBitsOnAnyNumberOfThreads) {
    const TrainingSubject subject(GetParam(), 4, 2);
    const TrainingForms forms = subject.mixer().training();
    const auto one = subject.run(*forms.fast, {9}, 1);
    for (const int n_threads : {2, 3})
        EXPECT_EQ(subject.run(*forms.fast, {9}, n_threads).of, one.of) << n_threads;
}

TEST_P(Training, AddsToGradientsOfTheWeightsThatAreNotFrozen) {
    const TrainingSubject subject(GetParam(), 5);
    const TrainingForms forms = subject.mixer().training();
    const auto all = subject.run(*forms.exact, {});
    bool keeps = true;  // every other weight
    NamedNumbers<double> begin;
    for (const auto& [name, g] : all.of) {
        keeps = !keeps;
        if (keeps && name != kInput) begin[name].assign(g.size(), 1.0);
    }
    const auto some = subject.run_with(*forms.exact, subject.numbers(), {}, 1,
                                       static_cast<std::vector<double>*>(nullptr), begin);
    EXPECT_EQ(some.of.at(kInput), all.of.at(kInput));
    for (const auto& [name, g] : all.of) {
        if (name == kInput) continue;
        for (size_t i = 0; i < g.size(); ++i)
            ASSERT_NEAR(some.of.at(name)[i], begin.contains(name) ? 1 + g[i] : 0,
                        1e-12 * (1 + std::fabs(g[i])))
                << name << " " << i;
    }
}

}  // namespace bifocal::contract
