// Laws about memory: a state is a fixed number of bytes that holds everything, and nothing else
// does.
#include "mixers/contract/allocations.h"
#include "mixers/contract/subject.h"

namespace bifocal::contract {

TEST_P(MixerContract, StateBytesAreFixedBeforeTheFirstToken) {
    const StateLayout& layout = subject_.layout();
    size_t end = 0;
    for (const StateField& field : layout.fields) {
        EXPECT_EQ(field.offset % kAlignment, 0u) << field.name;
        EXPECT_GE(field.offset, end) << field.name << " overlaps the one before";
        end = field.offset + field.bytes;
    }
    EXPECT_LE(end, layout.bytes);
    EXPECT_GT(layout.bytes, 0u);
    const StateLayout again = subject_.mixer().state_layout(GetParam().options);
    EXPECT_EQ(again.bytes, layout.bytes);
    EXPECT_EQ(again.fields.size(), layout.fields.size());
    // A session asks for more tokens, a mixer of fixed memory does not care.
    StateOptions longer = GetParam().options;
    longer.capacity *= 10;
    const StateLayout longer_layout = subject_.mixer().state_layout(longer);
    if (layout.capacity < 0) {
        EXPECT_EQ(longer_layout.bytes, layout.bytes);
    } else {
        EXPECT_GE(layout.capacity, GetParam().options.capacity);
        EXPECT_GT(longer_layout.bytes, layout.bytes);
    }
}

TEST_P(MixerContract, TheMillionthTokenStaysInsideTheState) {
    // As if a million tokens had come, or the capacity were used up but for 40; the guards of
    // state and workspace watch.
    const auto state = subject_.fresh_state();
    const std::vector<float> x = subject_.rows(5, 40);
    const int64_t last = subject_.layout().capacity < 0 ? 1'000'000 : subject_.layout().capacity;
    for (const float v : subject_.run(x, 9, *state, last - 40)) ASSERT_TRUE(std::isfinite(v));
    EXPECT_EQ(subject_.mixer().state_layout(GetParam().options).bytes, subject_.layout().bytes);
}

TEST_P(MixerContract, DecodeAllocatesNothing) {
    const auto state = subject_.fresh_state();
    const int64_t M = subject_.width();
    std::vector<float> x = subject_.rows();
    ThreadPool pool(2);
    Workspace workspace(subject_.mixer().workspace_bytes(subject_.layout(), 1, 1, 2));
    Exec exec{pool, workspace};
    std::byte* const slot = state->data();
    const int64_t before = allocations();
    for (int64_t t = 0; t < GetParam().n_tokens; ++t) {
        subject_.mixer().forward(
            {View<float, 3>(x.data() + t * M, {1, 1, M}), {&t, 1}, {&slot, 1}, subject_.layout()},
            exec);
    }
    EXPECT_EQ(allocations() - before, 0);
    EXPECT_GT(allocations(), 0) << "the count does not count";
}

TEST_P(MixerContract, ASnapshotGoesOnBitByBit) {
    const std::vector<float> x = subject_.rows();
    const int64_t M = subject_.width(), n = GetParam().n_tokens;
    for (const int64_t cut : {int64_t{0}, int64_t{1}, n / 2, n - 3}) {
        const auto state = subject_.fresh_state();
        (void)subject_.run({x.begin(), x.begin() + cut * M}, 5, *state);
        Guarded restored(subject_.layout().bytes);
        std::memcpy(restored.data(), state->data(), subject_.layout().bytes);
        const std::vector<float> rest(x.begin() + cut * M, x.end());
        const std::vector<float> went_on = subject_.run(rest, 4, *state, cut);
        ASSERT_TRUE(same_bits(subject_.run(rest, 4, restored, cut), went_on, M)) << cut;
        ASSERT_TRUE(std::ranges::equal(state->bytes(), restored.bytes())) << cut;
    }
}

TEST_P(MixerContract, TakingBackEqualsNotHavingGone) {
    const int64_t M = subject_.width(), n = GetParam().n_tokens;
    const std::vector<float> x = subject_.rows(), other = subject_.rows(6, 12);
    for (const int64_t furthest : {int64_t{1}, int64_t{5}, int64_t{8}, n / 2, n}) {
        const int64_t limit = subject_.mixer().rewind_limit(subject_.layout(), furthest);
        ASSERT_GE(limit, 0);
        ASSERT_LE(limit, furthest);
        for (const int64_t back : {limit, limit / 2}) {
            const int64_t kept = furthest - back;
            const auto gone = subject_.fresh_state(), straight = subject_.fresh_state();
            (void)subject_.run({x.begin(), x.begin() + furthest * M}, 6, *gone);
            (void)subject_.run({x.begin(), x.begin() + kept * M}, 6, *straight);
            for (const int64_t chunk : {int64_t{1}, int64_t{12}}) {
                Guarded a(subject_.layout().bytes), b(subject_.layout().bytes);
                std::memcpy(a.data(), gone->data(), subject_.layout().bytes);
                std::memcpy(b.data(), straight->data(), subject_.layout().bytes);
                ASSERT_TRUE(same_bits(subject_.run(other, chunk, a, kept),
                                      subject_.run(other, chunk, b, kept), M))
                    << back << " of " << furthest << " tokens taken back, chunks of " << chunk;
            }
        }
    }
}

TEST_P(MixerContract, WhatItSaysIsVisibleFitsWhatItSees) {
    for (int64_t pos = 0; pos < GetParam().n_tokens; ++pos) {
        int64_t seen = 0;  // by the token that comes next
        for (int64_t token = 0; token < pos; ++token) {
            seen += !GetParam().sees || GetParam().sees(pos, token);
        }
        if (GetParam().tokens_visible) seen = GetParam().tokens_visible(pos);
        ASSERT_EQ(subject_.mixer().tokens_visible(subject_.layout(), pos), seen) << pos;
    }
}

TEST_P(MixerContract, NeighboursInABatchChangeNothing) {
    constexpr int64_t kLengths[] = {3, 0, 25};  // tokens that each sequence has seen before
    constexpr int64_t T = 5;
    const int64_t M = subject_.width();
    std::vector<std::unique_ptr<Guarded>> alone, together;
    std::vector<float> expected, x;
    for (size_t b = 0; b < std::size(kLengths); ++b) {
        const std::vector<float> before = subject_.rows(30 + b, kLengths[b]);
        alone.push_back(subject_.fresh_state());
        together.push_back(subject_.fresh_state());
        if (!before.empty()) {
            (void)subject_.run(before, 8, *alone[b]);
            (void)subject_.run(before, 8, *together[b]);
        }
        const std::vector<float> next = subject_.rows(40 + b, T);
        const std::vector<float> y = subject_.run(next, T, *alone[b], kLengths[b]);
        x.insert(x.end(), next.begin(), next.end());
        expected.insert(expected.end(), y.begin(), y.end());
    }
    std::byte* const slots[] = {together[0]->data(), together[1]->data(), together[2]->data()};
    subject_.call(x, kLengths, slots, 2);
    EXPECT_TRUE(same_bits(x, expected, M));
    for (size_t b = 0; b < std::size(kLengths); ++b) {
        EXPECT_TRUE(std::ranges::equal(alone[b]->bytes(), together[b]->bytes())) << b;
        EXPECT_TRUE(together[b]->ok());
    }
}

TEST_P(MixerContract, TheSameCallGivesTheSameBitsOnAnyNumberOfThreads) {
    const std::vector<float> x = subject_.rows();
    const std::vector<float> once = subject_.run(x, 20);
    EXPECT_TRUE(same_bits(subject_.run(x, 20), once, subject_.width()));
    for (const int n_threads : {2, 5}) {
        const auto state = subject_.fresh_state();
        EXPECT_TRUE(same_bits(subject_.run(x, 20, *state, 0, n_threads), once, subject_.width()))
            << n_threads;
    }
}

// NaNs in workspaces and in memory before init_state() are part of every law: Subject poisons both.
TEST_P(MixerContract, NothingIsReadBeforeItIsWritten) {
    const std::vector<float> x = subject_.rows();
    for (const int64_t chunk : {int64_t{1}, int64_t{13}, GetParam().n_tokens}) {
        for (const float v : subject_.run(x, chunk)) ASSERT_TRUE(std::isfinite(v));
    }
}

TEST_P(LongMixerContract, StaysFiniteForAHundredThousandSteps) {
    const int64_t capacity = subject_.layout().capacity;
    const int64_t n = capacity < 0 ? 100'000 : capacity;
    const int64_t M = subject_.width();
    const auto state = subject_.fresh_state();
    std::byte* const slot = state->data();
    ThreadPool pool(1);
    Workspace workspace(subject_.mixer().workspace_bytes(subject_.layout(), 1, 1, 1));
    Exec exec{pool, workspace};
    const std::vector<float> rows = subject_.rows(5, 101);
    std::vector<float> x(static_cast<size_t>(M));
    double largest = 0;
    for (int64_t t = 0; t < n; ++t) {
        std::copy_n(rows.begin() + t % 101 * M, M, x.begin());
        subject_.mixer().forward(
            {View<float, 3>(x.data(), {1, 1, M}), {&t, 1}, {&slot, 1}, subject_.layout()}, exec);
        for (const float v : x) {
            ASSERT_TRUE(std::isfinite(v)) << "step " << t;
            largest = std::max(largest, std::fabs(static_cast<double>(v)));
        }
    }
    EXPECT_TRUE(state->ok());
    RecordProperty("largest_output", std::to_string(largest));
}

TEST_P(MixerContract, OptionsAreExplicitAndUnknownOnesRefused) {
    const MixerSpec& spec = subject_.mixer().spec();
    for (const auto& [name, value] : GetParam().spec.options.items()) {
        EXPECT_EQ(spec.options.value(name, nlohmann::json()), value) << name;
    }
    const auto parsed = parse_mixer_spec(spec.to_string());
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(parsed->options, spec.options);
    const auto again = make_mixer(*parsed, GetParam().context);
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ((*again)->spec().options, spec.options);

    MixerSpec unknown = spec;
    unknown.options["no_such_option"] = 1;
    const auto refused = make_mixer(unknown, GetParam().context);
    ASSERT_FALSE(refused.ok());
    const std::string message = refused.error().message();
    EXPECT_NE(message.find("no_such_option"), std::string::npos) << message;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    for (const auto& [name, value] : spec.options.items()) {
        EXPECT_NE(message.find(name), std::string::npos) << message << " does not list " << name;
    }
}

TEST_P(MixerContract, SaysWhatRuns) {
    EXPECT_FALSE(subject_.mixer().describe().empty());
    EXPECT_GT(subject_.mixer().weight_bytes(), 0);
}

}  // namespace bifocal::contract
