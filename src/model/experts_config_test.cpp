// What configurations say about experts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "core/json/json.h"
#include "formats/safetensors/file.h"
#include "model/families/experts.h"

namespace bifocal {
namespace {

using json::Fields;
using json::Json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<LayerExperts> read(const ExpertFamily& family, const Json& config, int64_t n_layers) {
    return experts_from_hf(family, Fields::of(config, "config.json").value(), n_layers);
}

// Of a block that tools/golden/experts.py wrote.
Json golden_config(const std::string& name) {
    const std::string path =
        fmt::format("{}/tests/golden/experts/{}.safetensors", BIFOCAL_SOURCE_DIR, name);
    const safetensors::File file = safetensors::File::open(path).value();
    return Json::parse(file.metadata().at("about"))["config"];
}

TEST(ExpertsConfig, Qwen3Next) {
    const LayerExperts layers = read(kQwenExperts, golden_config("qwen3_next"), 8).value();
    for (const int64_t i : {0, 2, 3, 4, 6}) EXPECT_FALSE(layers[i]) << i;  // every second; not 3
    ASSERT_TRUE(layers[1] && layers[5] && layers[7]);
    EXPECT_EQ(layers[1]->n_experts, 7);
    EXPECT_EQ(layers[1]->n_used, 3);
    EXPECT_EQ(layers[1]->d_ff, 12);
    EXPECT_EQ(layers[1]->d_ff_shared, 28);
    EXPECT_TRUE(layers[1]->gating.sums_to_one);
    EXPECT_FALSE(layers[1]->has_biases);
}

TEST(ExpertsConfig, NumbersThatNoModelCanHave) {
    const auto message = [](const ExpertFamily& family, auto edit) {
        Json config{{"num_local_experts", 6}, {"num_experts_per_tok", 2}, {"intermediate_size", 8}};
        edit(config);
        const auto layers = read(family, config, 2);
        return layers.ok() ? "accepted" : layers.error().message();
    };
    EXPECT_EQ(message(kGptOssExperts, [](Json&) {}), "accepted");
    EXPECT_THAT(message(kGptOssExperts, [](Json& c) { c["num_experts_per_tok"] = 7; }),
                AllOf(HasSubstr("num_experts_per_tok"), HasSubstr("expected at most 6, got 7")));
    EXPECT_THAT(message(kGptOssExperts, [](Json& c) { c["num_experts"] = 5; }),
                AllOf(HasSubstr("num_experts"), HasSubstr("expected 6, got 5")));
    EXPECT_THAT(message(kGptOssExperts, [](Json& c) { c["num_local_experts"] = 0; }),
                HasSubstr("num_local_experts"));
    EXPECT_THAT(message(kGptOssExperts, [](Json& c) { c.erase("num_local_experts"); }),
                AllOf(HasSubstr("num_local_experts"), HasSubstr("missing")));
    EXPECT_THAT(message(kGptOssExperts, [](Json& c) { c["swiglu_limit"] = 6.5; }),
                AllOf(HasSubstr("swiglu_limit"), HasSubstr("got 6.5")));
    EXPECT_THAT(message(kQwenExperts, [](Json&) {}),
                AllOf(HasSubstr("moe_intermediate_size"), HasSubstr("missing")));
}

// As the first checkpoints say it.
Json kimi_config() {
    return {{"num_experts", 256},
            {"num_experts_per_token", 8},
            {"num_shared_experts", 1},
            {"moe_intermediate_size", 1024},
            {"moe_router_activation_func", "sigmoid"},
            {"moe_renormalize", true},
            {"num_expert_group", 1},
            {"topk_group", 1},
            {"use_grouped_topk", true},
            {"routed_scaling_factor", 2.446},
            {"first_k_dense_replace", 1},
            {"moe_layer_freq", 1}};
}

TEST(ExpertsConfig, KimiLinear) {
    const LayerExperts layers = read(kKimiExperts, kimi_config(), 27).value();
    EXPECT_FALSE(layers[0]);
    for (size_t i = 1; i < 27; ++i) {
        ASSERT_TRUE(layers[i]) << i;
        EXPECT_EQ(layers[i]->n_experts, 256);
        EXPECT_EQ(layers[i]->n_used, 8);
        EXPECT_EQ(layers[i]->d_ff, 1024);
        EXPECT_EQ(layers[i]->d_ff_shared, 1024);
        EXPECT_FALSE(layers[i]->has_biases);
        const ops::Gating expected{.scores = ops::Gating::Scores::sigmoid, .scale = 2.446f};
        EXPECT_EQ(layers[i]->gating, expected);
    }
}

TEST(ExpertsConfig, KimiLinearAsTransformersSavesIt) {
    const LayerExperts layers = read(kKimiExperts, golden_config("kimi_linear"), 3).value();
    EXPECT_FALSE(layers[0]);
    ASSERT_TRUE(layers[1] && layers[2]);
    EXPECT_EQ(layers[1]->n_experts, 16);
    EXPECT_EQ(layers[1]->n_used, 4);
    EXPECT_EQ(layers[1]->d_ff, 8);
    EXPECT_EQ(layers[1]->d_ff_shared, 16);
    const ops::Gating expected{
        .scores = ops::Gating::Scores::sigmoid, .scale = 2.446f, .n_groups = 4, .n_groups_used = 2};
    EXPECT_EQ(layers[1]->gating, expected);
}

// The second names are those of transformers' attributes.
TEST(ExpertsConfig, SecondNamesOfWhatKimiLinearSays) {
    Json config = kimi_config();  // without anything that is the same when it is missing
    config.update({{"num_shared_experts", 2},
                   {"moe_renormalize", false},
                   {"num_expert_group", 8},
                   {"topk_group", 4}});
    const auto numbers = [&] {
        const ExpertsSpec x = *read(kKimiExperts, config, 2).value()[1];
        return std::tuple(x.n_experts, x.n_used, x.d_ff_shared, x.gating.sums_to_one,
                          x.gating.n_groups);
    };
    const auto expected = numbers();
    EXPECT_EQ(expected, std::tuple(256, 8, 2048, false, 8));
    for (const auto& [name, other] : {std::pair{"num_experts", "num_local_experts"},
                                      std::pair{"num_experts_per_token", "num_experts_per_tok"},
                                      std::pair{"num_shared_experts", "n_shared_experts"},
                                      std::pair{"moe_renormalize", "norm_topk_prob"},
                                      std::pair{"num_expert_group", "n_group"}}) {
        const Json value = config[name];
        config[other] = value;
        EXPECT_EQ(numbers(), expected) << other;
        config[other] = value.is_boolean() ? Json(true) : Json(4);
        const auto both = read(kKimiExperts, config, 2);
        ASSERT_FALSE(both.ok()) << other;
        EXPECT_THAT(both.error().message(), AllOf(HasSubstr(name), HasSubstr(other)));
        config[other] = value;
        config.erase(name);
        EXPECT_EQ(numbers(), expected) << other;
    }
}

TEST(ExpertsConfig, WhichLayersOfKimiLinear) {
    const auto sparse = [](const Json& edits, int64_t n_layers = 5) -> std::string {
        Json config = kimi_config();
        config.merge_patch(edits);  // null: without it
        const auto layers = read(kKimiExperts, config, n_layers);
        if (!layers.ok()) return layers.error().message();
        std::string text;
        for (const auto& layer : *layers) text += layer ? 's' : 'd';
        return text;
    };
    const Json listed = {"dense", "sparse", "dense", "sparse", "sparse"};
    EXPECT_EQ(sparse({{"first_k_dense_replace", 0}}), "sssss");
    EXPECT_EQ(sparse({{"first_k_dense_replace", 3}}), "dddss");
    EXPECT_EQ(sparse({{"moe_layer_freq", 2}}), "ddsds");
    EXPECT_EQ(sparse({{"mlp_layer_types", {"dense", "sparse", "sparse", "sparse", "sparse"}}}),
              "dssss");
    const Json only_list{{"mlp_layer_types", listed}, {"first_k_dense_replace", nullptr}};
    EXPECT_EQ(sparse(only_list), "dsdss");
    EXPECT_EQ(sparse({{"first_k_dense_replace", 5}}), "");  // none: a dense model
    EXPECT_EQ(sparse({{"num_experts", 0}}), "");

    EXPECT_THAT(sparse({{"mlp_layer_types", listed}}),
                AllOf(HasSubstr("mlp_layer_types"), HasSubstr("first_k_dense_replace"),
                      HasSubstr("layer 2"), HasSubstr("expected sparse, got dense")));
    Json every_second = only_list;
    every_second["moe_layer_freq"] = 2;
    EXPECT_THAT(sparse(every_second),
                AllOf(HasSubstr("layer 1"), HasSubstr("expected dense, got sparse")));
    EXPECT_THAT(sparse(only_list, 6), AllOf(HasSubstr("wrong length"), HasSubstr("got 5")));
    EXPECT_THAT(sparse({{"mlp_layer_types", {"dense", "moe"}}}, 2),
                AllOf(HasSubstr("mlp_layer_types"), HasSubstr("got moe")));
    EXPECT_THAT(sparse({{"first_k_dense_replace", nullptr}}),
                AllOf(HasSubstr("first_k_dense_replace"), HasSubstr("missing")));
    EXPECT_THAT(sparse({{"moe_layer_freq", 0}}), HasSubstr("moe_layer_freq"));
}

TEST(ExpertsConfig, WhatKimiLinearCannotSay) {
    const auto message = [](const Json& edits) {
        Json config = kimi_config();
        config.merge_patch(edits);
        const auto layers = read(kKimiExperts, config, 3);
        return layers.ok() ? "accepted" : layers.error().message();
    };
    EXPECT_EQ(message(Json::object()), "accepted");
    EXPECT_EQ(message({{"num_expert_group", 8}, {"topk_group", 4}}), "accepted");
    EXPECT_EQ(message({{"use_grouped_topk", false}}), "accepted");  // one group is none
    EXPECT_THAT(
        message({{"moe_router_activation_func", "softmax"}}),
        AllOf(HasSubstr("moe_router_activation_func"), HasSubstr("expected sigmoid, got softmax")));
    for (const double scale : {0.0, -2.446, 1e40})
        EXPECT_THAT(message({{"routed_scaling_factor", scale}}),
                    AllOf(HasSubstr("routed_scaling_factor"), HasSubstr("out of range")));
    for (const char* key : {"routed_scaling_factor", "num_shared_experts", "moe_intermediate_size"})
        EXPECT_THAT(message({{key, nullptr}}), AllOf(HasSubstr(key), HasSubstr("missing")));
    EXPECT_THAT(message({{"num_shared_experts", 1 << 20}}), HasSubstr("num_shared_experts"));
    EXPECT_THAT(
        message({{"num_expert_group", 7}}),
        AllOf(HasSubstr("num_expert_group"), HasSubstr("expected a divisor of 256, got 7")));
    EXPECT_THAT(message({{"num_expert_group", 256}}), HasSubstr("groups of two or more"));
    EXPECT_THAT(message({{"num_expert_group", 8}, {"topk_group", 9}}),
                AllOf(HasSubstr("topk_group"), HasSubstr("1 to 8, got 9")));
    EXPECT_THAT(message({{"num_expert_group", 64}, {"topk_group", 1}}),
                AllOf(HasSubstr("topk_group"), HasSubstr("expected 8 experts, got 4")));
    EXPECT_THAT(message({{"num_expert_group", 8}, {"use_grouped_topk", false}}),
                HasSubstr("use_grouped_topk"));
    EXPECT_THAT(message({{"moe_renormalize", 1}}), HasSubstr("moe_renormalize"));
}

}  // namespace
}  // namespace bifocal
