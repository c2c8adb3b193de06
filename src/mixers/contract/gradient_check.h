// The law of gradients: those of the training form in double against central differences of the
// definition.
#pragma once

#include "mixers/contract/all_cases.h"
#include "mixers/contract/training_subject.h"

namespace bifocal::contract {

inline std::vector<ContractCase> cases_that(bool train) {
    std::vector<ContractCase> cases = all_cases();
    std::erase_if(cases, [&](const ContractCase& c) {
        return std::move(make_mixer(c.spec, c.context)).value()->traits().trainable != train;
    });
    return cases;
}

// Forms of stretches: one without states; from a fresh state, cut twice; as uneven as it gets.
inline std::vector<int64_t> cuts_of(uint64_t seed, int64_t n_tokens) {
    if (seed == 1) return {};
    if (seed == 2) return {n_tokens / 2, n_tokens - 5};
    return {1, 4, n_tokens - 1};
}

// Of the tensor's largest gradient; one whose gradients cancel is measured by the others'.
inline constexpr double kGradientLimit = 1e-6;

// At most `elements` elements of every tensor, all of smaller ones, and whole tensors along
// `directions` random directions.
inline void check_gradients(const ContractCase& c, uint64_t seed, int64_t elements,
                            int directions) {
    const TrainingSubject subject(c, seed);
    const std::vector<int64_t> cuts = cuts_of(seed, subject.n_tokens());
    const auto gradients = subject.run(*subject.mixer().training().exact, cuts);
    // A window of one token hands nothing on.
    const bool remembers = !c.sees || c.sees(1, 0);
    if (!cuts.empty()) {
        EXPECT_EQ(gradients.handed_back > 1e-3, remembers) << "gradients of states";
    }
    double largest = 0;
    for (const auto& [name, g] : gradients.of)
        for (const double d : g) largest = std::max(largest, std::fabs(d));
    EXPECT_GT(largest, 0.1);
    Rng rng{seed};
    for (const auto& [name, g] : gradients.of) {
        double scale = 1e-3 * largest;
        for (const double d : g) scale = std::max(scale, std::fabs(d));
        const auto check = [&](const std::vector<double>& direction,
                               TrainingSubject::Definition which, const std::string& what) {
            double sum = 0;
            for (size_t i = 0; i < g.size(); ++i) sum += g[i] * direction[i];
            const double truth = subject.difference(name, direction, which);
            EXPECT_LE(std::fabs(sum - truth), kGradientLimit * scale)
                << "seed " << seed << ", " << name << " " << what << ": " << sum << " is " << truth
                << ", scale " << scale;
        };
        const auto n = std::ssize(g);
        for (int64_t k = 0; k < std::min(n, elements); ++k) {
            const int64_t i = n <= elements ? k : rng.below(n);
            std::vector<double> direction(g.size());
            direction[i] = 1;
            check(direction, TrainingSubject::Definition::recurrent, std::to_string(i));
        }
        for (int k = 0; k < directions; ++k) {
            std::vector<double> direction(g.size());
            double length = 0;
            for (double& d : direction) d = rng.normal(), length += d * d;
            for (double& d : direction) d /= std::sqrt(length);
            check(direction, TrainingSubject::Definition::parallel,
                  "along direction " + std::to_string(k));
        }
    }
}

class Training : public ::testing::TestWithParam<ContractCase> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Training);

}  // namespace bifocal::contract
