// Softmax layers against those of transformers, in FP32. tests/golden/attention is written by
// tools/golden/attention.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mixers/testing/golden_layer.h"

namespace bifocal {
namespace {

using Json = nlohmann::json;

constexpr const char* kFolder = BIFOCAL_SOURCE_DIR "/tests/golden/attention/";

ops::RopeSpec rope_of(const Json& json) {
    ops::RopeSpec rope;
    rope.theta = json["theta"];
    rope.rotary_dim = json["rotary_dim"];
    if (!json.contains("yarn")) return rope;
    const Json& yarn = json["yarn"];
    rope.scaling = ops::RopeScaling::yarn;
    rope.factor = yarn["factor"];
    rope.original_context = yarn["original_context"];
    rope.beta_fast = yarn["beta_fast"];
    rope.beta_slow = yarn["beta_slow"];
    rope.truncate = yarn["truncate"];
    return rope;
}

LayerContext context_of(const Json& layer) {
    LayerContext context = testing::golden_context(layer);
    context.norm_offset = layer.value("norm_offset", 0.0f);
    context.qk_norm = layer.value("qk_norm", false);
    context.qkv_bias = layer.value("qkv_bias", false);
    context.out_bias = layer.value("out_bias", false);
    context.output_gate = layer.value("output_gate", false);
    if (layer.contains("rope")) context.rope = rope_of(layer["rope"]);
    if (layer.contains("latent")) {
        const Json& latent = layer["latent"];
        context.latent = LatentKeys{.rank = latent["rank"],
                                    .own_dim = latent["own_dim"],
                                    .shared_dim = latent["shared_dim"],
                                    .value_dim = latent["value_dim"]};
    }
    return context;
}

MixerSpec mixer_of(Json json) {
    MixerSpec spec{.kind = json["kind"]};
    json.erase("kind");
    spec.options = std::move(json);
    return spec;
}

constexpr const char* kCases[] = {"qwen3_5", "qwen3_next",  "gpt_oss_full",       "gpt_oss_sliding",
                                  "minimax", "kimi_linear", "kimi_linear_sliding"};

class AttentionGolden : public ::testing::TestWithParam<const char*> {
  protected:
    static testing::GoldenLayer layer_of(const std::string& name) {
        const Json golden = Json::parse(std::ifstream(kFolder + name + ".json"));
        return {golden, mixer_of(golden["mixer"]), context_of(golden["layer"])};
    }
    testing::GoldenLayer layer_ = layer_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Files, AttentionGolden, ::testing::ValuesIn(kCases),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(AttentionGolden, EveryFormGivesTheirLayersOutput) {
    layer_.every_form([&](double apart, const std::string& what) {
        EXPECT_LE(apart, testing::kGoldenTolerance) << what;
        RecordProperty(what, fmt::format("{:.1e}", apart));
    });
}

TEST_P(AttentionGolden, AnyOtherWeightIsNotWithinTheTolerance) {
    layer_.with_other_weights([](double apart, const std::string& name) {
        EXPECT_GT(apart, testing::kGoldenTolerance) << name;
    });
}

TEST(AttentionGoldenFiles, AreTheListedOnes) {
    for (const auto& entry : std::filesystem::directory_iterator(kFolder))
        EXPECT_NE(std::ranges::find(kCases, entry.path().stem().string()), std::end(kCases))
            << entry.path();
}

}  // namespace
}  // namespace bifocal
