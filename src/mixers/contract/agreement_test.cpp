// Laws about values: what the fast path computes is what the definition says, however the tokens
// are cut, and nothing else reaches an output.
#include <gmock/gmock.h>

#include "mixers/contract/all_cases.h"
#include "mixers/contract/subject.h"

namespace bifocal::contract {
namespace {

std::vector<ContractCase> long_cases() {
    std::vector<ContractCase> cases = all_cases();
    std::erase_if(cases, [](const ContractCase& c) { return !c.runs_long; });
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Law, MixerContract, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Law, LongMixerContract, ::testing::ValuesIn(long_cases()), case_name);

TEST(MixerContractSuite, EveryRegisteredMixerHasCases) {
    for (const MixerEntry& entry : registered_mixers()) {
        EXPECT_TRUE(std::ranges::any_of(all_cases(), [&](const ContractCase& c) {
            return c.spec.kind == entry.kind;
        })) << entry.kind;
        EXPECT_TRUE(std::ranges::any_of(
            all_cases(),
            [&](const ContractCase& c) { return c.spec.kind == entry.kind && c.runs_long; }))
            << entry.kind << " has no case that runs long";
    }
}

std::vector<float> changed_at(std::vector<float> x, int64_t t, int64_t width) {
    for (int64_t m = 0; m < width; ++m) x[t * width + m] += 0.05f * static_cast<float>(m % 3 - 1);
    return x;
}

}  // namespace

TEST_P(MixerContract, AgreesWithTheReferenceInDouble) {
    const std::vector<float> x = subject_.rows();
    const std::vector<float> y = subject_.run(x, GetParam().n_tokens);
    EXPECT_TRUE(is_good(subject_.judge(x, y)));
    // The rule has to be able to fail: a mixer that does nothing is refused.
    EXPECT_FALSE(subject_.judge(x, x).ok);
}

// A mixer with a single definition has nothing to compare.
TEST_P(MixerContract, RecurrentAndParallelDefinitionsAgreeInDouble) {
    const std::vector<float> x = subject_.rows();
    const std::vector<double> recurrent = subject_.recurrent_reference(x);
    if (recurrent.empty()) return;
    const std::vector<double> parallel = subject_.reference(x, Mixer::Real::f64);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(recurrent[i], parallel[i], 1e-10) << i;
}

TEST_P(MixerContract, AnyChunkingGivesTheSameResult) {
    const std::vector<float> x = subject_.rows();
    const auto whole_state = subject_.fresh_state();
    const std::vector<float> whole = subject_.run(x, GetParam().n_tokens, *whole_state);
    for (const int64_t chunk : GetParam().chunks) {
        const auto state = subject_.fresh_state();
        const std::vector<float> y = subject_.run(x, chunk, *state);
        ASSERT_TRUE(is_good(subject_.judge(x, y))) << "chunks of " << chunk;
        if (!subject_.mixer().traits().same_bits_for_any_chunking) continue;
        ASSERT_TRUE(same_bits(y, whole, subject_.width())) << "chunks of " << chunk;
        ASSERT_TRUE(std::ranges::equal(state->bytes(), whole_state->bytes()))
            << "states differ, chunks of " << chunk;
    }
}

TEST_P(MixerContract, UnevenChunksAndEmptyOnesGiveTheSameResult) {
    const std::vector<float> x = subject_.rows();
    const int64_t M = subject_.width(), n = GetParam().n_tokens;
    Rng rng{77};
    for (int round = 0; round < 4; ++round) {
        const auto state = subject_.fresh_state();
        std::byte* const slot = state->data();
        std::vector<float> y = x;
        for (int64_t t = 0; t < n;) {
            const int64_t T = std::min(n - t, rng.below(12));  // 0 too
            subject_.call(std::span(y).subspan(t * M, T * M), {&t, 1}, {&slot, 1});
            t += T;
        }
        ASSERT_TRUE(is_good(subject_.judge(x, y))) << "round " << round;
    }
}

TEST_P(MixerContract, DecodeEqualsPrefill) {
    const std::vector<float> x = subject_.rows();
    const int64_t M = subject_.width(), n = GetParam().n_tokens, half = n / 2;
    const auto state = subject_.fresh_state();
    std::vector<float> y(x.begin(), x.begin() + half * M);
    y = subject_.run(y, half, *state);
    const std::vector<float> rest = subject_.run({x.begin() + half * M, x.end()}, 1, *state, half);
    y.insert(y.end(), rest.begin(), rest.end());
    EXPECT_TRUE(is_good(subject_.judge(x, y)));
    if (subject_.mixer().traits().same_bits_for_any_chunking) {
        EXPECT_TRUE(same_bits(y, subject_.run(x, n), M));
    }
}

TEST_P(MixerContract, TokensChangeNothingBeforeThem) {
    const std::vector<float> x = subject_.rows();
    const int64_t M = subject_.width(), n = GetParam().n_tokens;
    for (const int64_t chunk : {n, int64_t{7}}) {
        const std::vector<float> y = subject_.run(x, chunk);
        for (const int64_t t : {int64_t{1}, n / 3, n - 1}) {
            const std::vector<float> other = subject_.run(changed_at(x, t, M), chunk);
            ASSERT_TRUE(same_bits(std::span(y).first(t * M), std::span(other).first(t * M), M))
                << "token " << t << ", chunks of " << chunk;
        }
    }
}

TEST_P(MixerContract, AnOutputDependsOnExactlyTheTokensItSees) {
    const std::vector<float> x = subject_.rows();
    const int64_t M = subject_.width(), n = GetParam().n_tokens;
    const auto sees = [&](int64_t query, int64_t token) {
        return token <= query && (!GetParam().sees || GetParam().sees(query, token));
    };
    const std::vector<float> y = subject_.run(x, 16);
    for (int64_t token = 0; token < n; token += token < 8 ? 1 : 5) {
        const std::vector<float> other = subject_.run(changed_at(x, token, M), 16);
        for (int64_t query = 0; query < n; ++query) {
            const auto row = [&](const std::vector<float>& all) {
                return std::span(all).subspan(query * M, M);
            };
            const bool changes = !same_bits(row(y), row(other), M);
            const int64_t remembers = GetParam().remembers;
            if (!changes && remembers >= 0 && query - token > remembers) continue;
            ASSERT_EQ(changes, sees(query, token)) << "query " << query << ", token " << token;
        }
    }
}

}  // namespace bifocal::contract
