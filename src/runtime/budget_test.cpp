// Budgets: the largest window that fits, by what the layouts themselves declare.
#include "runtime/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/testing/tiny_model.h"

namespace bifocal {
namespace {

using ::testing::HasSubstr;

const StateOptions kOptions{128, DType::bf16};

ModelSpec spec() {
    return testing::tiny_model("full").decoder.spec;
}

MixerSpec window_with(int64_t sinks) {
    return {"sliding_window", {{"sink_tokens", sinks}}};
}

int64_t bytes_of(MixerSpec mixer, int64_t window) {
    mixer.options["window"] = window;
    const auto bytes = layout_bytes(spec(), mixer, kOptions);
    EXPECT_TRUE(bytes.ok());
    return *bytes;
}

TEST(Budget, TheLargestWindowThatFits) {
    for (const int64_t sinks : {0, 4}) {
        const MixerSpec mixer = window_with(sinks);
        for (const int64_t wanted : {8, 20, 100, 999}) {
            const int64_t budget = bytes_of(mixer, wanted);
            for (const int64_t spare : {0, 1, 63}) {
                const auto fitted = fit_window(spec(), mixer, kOptions, budget + spare, 4096);
                ASSERT_TRUE(fitted.ok()) << fitted.error().message();
                const int64_t window = fitted->options["window"];
                EXPECT_GE(window, wanted);
                EXPECT_LE(bytes_of(mixer, window), budget + spare);
                EXPECT_GT(bytes_of(mixer, window + 1), budget + spare);
                EXPECT_EQ(fitted->options["sink_tokens"], sinks);
            }
            const auto less = fit_window(spec(), mixer, kOptions, budget - 1, 4096);
            ASSERT_TRUE(less.ok());
            EXPECT_LT(less->options["window"], wanted);
        }
    }
}

TEST(Budget, NoLongerThanAsked) {
    const auto fitted = fit_window(spec(), window_with(4), kOptions, int64_t{1} << 40, 333);
    ASSERT_TRUE(fitted.ok());
    EXPECT_EQ(fitted->options["window"], 333);
}

TEST(Budget, TooSmallForOneTokenSaysTheLeast) {
    const int64_t least = bytes_of(window_with(4), 5);
    const auto fitted = fit_window(spec(), window_with(4), kOptions, least - 1, 4096);
    ASSERT_FALSE(fitted.ok());
    EXPECT_THAT(fitted.error().message(), HasSubstr("too small for one token"));
    EXPECT_THAT(fitted.error().message(), HasSubstr(std::to_string(least)));
    EXPECT_TRUE(fit_window(spec(), window_with(4), kOptions, least, 4096).ok());
}

TEST(Budget, AnUnknownOptionIsItsOwnError) {
    MixerSpec mixer = window_with(4);
    mixer.options["windw"] = 3;
    const auto fitted = fit_window(spec(), mixer, kOptions, 1 << 20, 4096);
    ASSERT_FALSE(fitted.ok());
    EXPECT_THAT(fitted.error().message(), HasSubstr("windw"));
}

TEST(Budget, NumbersOfBytes) {
    const std::pair<const char*, int64_t> good[] = {
        {"4096", 4096},       {"4096B", 4096},      {"1k", 1000},
        {"1KiB", 1024},       {"1.5KiB", 1536},     {"72MiB", 72 << 20},
        {"72M", 72'000'000},  {"72MB", 72'000'000}, {"2GiB", int64_t{2} << 30},
        {"1G", 1'000'000'000}};
    for (const auto& [text, bytes] : good) {
        const auto parsed = parse_bytes(text);
        ASSERT_TRUE(parsed.ok()) << text;
        EXPECT_EQ(*parsed, bytes) << text;
    }
    for (const char* text : {"", "k", "-1", "0", "1x", "1kk", "1kiBB", "1e3", "nan", "1 k", "1Ti",
                             "99999999999G", "0.1"}) {
        const auto parsed = parse_bytes(text);
        ASSERT_FALSE(parsed.ok()) << text;
        EXPECT_EQ(parsed.error().kind, ErrorKind::usage);
    }
}

}  // namespace
}  // namespace bifocal
