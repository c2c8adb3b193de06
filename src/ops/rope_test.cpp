// RoPE against transformers: frequencies of every scaling, attention factors, rotated heads.
// tests/golden/rope/rope.json is written by tools/golden/rope.py.
#include "ops/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace bifocal::ops {
namespace {

using Json = nlohmann::json;

const Json& golden() {
    static const Json json =
        Json::parse(std::ifstream(BIFOCAL_SOURCE_DIR "/tests/golden/rope/rope.json"));
    return json;
}

RopeSpec spec_of(const Json& c, RopeStyle style) {
    const Json& p = c["parameters"];
    const std::string type = p["rope_type"];
    RopeSpec spec;
    spec.style = style;
    spec.theta = p["rope_theta"];
    spec.rotary_dim = c["rotary_dim"];
    spec.scaling = type == "linear"     ? RopeScaling::linear
                   : type == "llama3"   ? RopeScaling::llama3
                   : type == "yarn"     ? RopeScaling::yarn
                   : type == "longrope" ? RopeScaling::longrope
                                        : RopeScaling::none;
    spec.factor = p.value("factor", 1.0);
    spec.original_context = p.value("original_max_position_embeddings", 0.0);
    spec.low_freq_factor = p.value("low_freq_factor", 1.0);
    spec.high_freq_factor = p.value("high_freq_factor", 4.0);
    spec.beta_fast = p.value("beta_fast", 32.0);
    spec.beta_slow = p.value("beta_slow", 1.0);
    spec.truncate = p.value("truncate", true);
    if (p.contains("attention_factor")) spec.attention_factor = p["attention_factor"];
    if (p.contains("divisors")) spec.divisors = p["divisors"].get<std::vector<double>>();
    return spec;
}

TEST(Rope, FrequenciesEqualTransformers) {
    ASSERT_EQ(golden()["cases"].size(), 9u);
    for (const Json& c : golden()["cases"]) {
        SCOPED_TRACE(c["name"].get<std::string>());
        const auto table = make_rope_table(spec_of(c, RopeStyle::half));
        ASSERT_TRUE(table.ok()) << table.error().message();
        EXPECT_NEAR(table->attention_factor, c["attention_factor"].get<double>(), 1e-9);
        const auto expected = c["inv_freq"].get<std::vector<double>>();
        ASSERT_EQ(table->inv_freq.size(), expected.size());
        for (size_t j = 0; j < expected.size(); ++j) {
            // Theirs is computed in FP32: a power and a few operations.
            EXPECT_NEAR(table->inv_freq[j] / expected[j], 1.0, 1e-6) << "pair " << j;
        }
    }
}

TEST(Rope, RotatedHeadsEqualTransformersInBothStyles) {
    const auto positions = golden()["positions"].get<std::vector<int64_t>>();
    for (const Json& c : golden()["cases"]) {
        for (const RopeStyle style : {RopeStyle::half, RopeStyle::interleaved}) {
            const bool half = style == RopeStyle::half;
            SCOPED_TRACE(c["name"].get<std::string>() + (half ? " half" : " interleaved"));
            auto table = make_rope_table(spec_of(c, style));
            ASSERT_TRUE(table.ok());
            // The golden angles are exact products of FP32 frequencies: take those.
            table->inv_freq = c["inv_freq"].get<std::vector<double>>();
            const auto head = c["head"].get<std::vector<float>>();
            const auto expected = c[half ? "half" : "interleaved"].get<std::vector<double>>();
            std::vector<float> cos(table->inv_freq.size()), sin(cos.size());
            size_t at = 0;
            for (const int64_t pos : positions) {
                std::vector<float> turned = head;
                rope_cos_sin(*table, pos, cos, sin);
                rope_rotate(*table, cos, sin, turned);
                for (const float x : turned) {
                    // Written with nine digits, so an angle of 30,000 is known to 3e-5.
                    ASSERT_NEAR(x, expected[at++], 1e-6 + 4e-9 * static_cast<double>(pos));
                }
            }
            ASSERT_EQ(at, expected.size());
        }
    }
}

// A GGUF file holds llama3 scaling as divisors of the plain frequencies.
TEST(Rope, DivisorsStandForAScaling) {
    for (const Json& c : golden()["cases"]) {
        if (c["name"] != "llama3") continue;
        RopeSpec spec = spec_of(c, RopeStyle::half);
        const auto scaled = make_rope_table(spec);
        spec.scaling = RopeScaling::none;
        const auto plain = make_rope_table(spec);
        ASSERT_TRUE(scaled.ok() && plain.ok());
        for (size_t j = 0; j < plain->inv_freq.size(); ++j) {
            spec.divisors.push_back(plain->inv_freq[j] / scaled->inv_freq[j]);
        }
        const auto divided = make_rope_table(spec);
        ASSERT_TRUE(divided.ok());
        for (size_t j = 0; j < plain->inv_freq.size(); ++j) {
            EXPECT_NEAR(divided->inv_freq[j] / scaled->inv_freq[j], 1.0, 1e-12);
        }
    }
}

TEST(Rope, RefusesWhatMakesNoSense) {
    const auto message = [](auto change) {
        RopeSpec spec;
        spec.rotary_dim = 8;
        change(spec);
        const auto table = make_rope_table(spec);
        return table.ok() ? std::string() : table.error().message();
    };
    const auto has = [](std::string part) { return ::testing::HasSubstr(part); };
    EXPECT_EQ(message([](RopeSpec&) {}), "");
    EXPECT_EQ(message([](RopeSpec& s) { s.rotary_dim = 0; }), "");
    EXPECT_THAT(message([](RopeSpec& s) { s.rotary_dim = 7; }), has("rotary size"));
    EXPECT_THAT(message([](RopeSpec& s) { s.theta = 0; }), has("theta"));
    EXPECT_THAT(message([](RopeSpec& s) { s.theta = std::nan(""); }), has("theta"));
    EXPECT_THAT(message([](RopeSpec& s) { s.factor = -1; }), has("factor"));
    EXPECT_THAT(message([](RopeSpec& s) { s.divisors = {1, 2, 3}; }), has("expected 4, got 3"));
    EXPECT_THAT(message([](RopeSpec& s) { s.divisors = {1, 2, 0, 1}; }), has("frequency factor"));
    EXPECT_THAT(message([](RopeSpec& s) { s.scaling = RopeScaling::longrope; }), has("none"));
    EXPECT_THAT(message([](RopeSpec& s) { s.scaling = RopeScaling::yarn; }),
                has("original context"));
    EXPECT_THAT(message([](RopeSpec& s) {
                    s.scaling = RopeScaling::llama3;
                    s.original_context = 8192;
                    s.low_freq_factor = 4;
                }),
                has("low < high"));
}

}  // namespace
}  // namespace bifocal::ops
