// Kimi-Linear: both spellings of its config.json, what is refused, and its layouts. That its logits
// are those of transformers is in golden_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/convert.h"
#include "model/model_spec.h"
#include "model/testing/checkpoint_copy.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

using json::Json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the checkpoint's authors call the same numbers, beside what they add.
void respell(Json& c) {
    for (const char* key : {"layer_types", "linear_head_dim", "linear_num_heads",
                            "linear_conv_kernel_dim", "mlp_layer_types"})
        c.erase(key);
    c["linear_attn_config"] = {{"kda_layers", {1, 3}},
                               {"full_attn_layers", {2, 4}},
                               {"head_dim", 9},
                               {"num_heads", 3},
                               {"short_conv_kernel_size", 4}};
    c["first_k_dense_replace"] = 1;
    c["moe_layer_freq"] = 1;
    c["moe_router_activation_func"] = "sigmoid";
    c["use_grouped_topk"] = true;
    c["mla_use_nope"] = true;
    c["head_dim"] = 72;  // means nothing
    c["rope_theta"] = 10000.0;
    c["rope_scaling"] = nullptr;
}

class KimiLinear : public testing::CheckpointCopy {
  protected:
    void SetUp() override {
        CheckpointCopy::SetUp();
        copy("kimi_linear");
    }
    std::string with(const std::function<void(Json&)>& edit) {
        copy("kimi_linear");
        edit_config(edit);
        return message();
    }
    std::string respelled(const std::function<void(Json&)>& edit) {
        return with([&](Json& c) {
            respell(c);
            edit(c);
        });
    }
    static std::vector<float> logits(const Model& model) {
        return testing::all_logits(model.decoder(), testing::golden_of("kimi_linear").tokens, 48);
    }
};

TEST_F(KimiLinear, BothSpellingsAreOneModel) {
    const std::vector<float> as_saved = logits(testing::load_exact(folder_));
    edit_config(respell);
    EXPECT_EQ(logits(testing::load_exact(folder_)), as_saved);
    edit_config([](Json& c) {
        c["layer_types"] = {"linear_attention", "full_attention", "linear_attention",
                            "full_attention"};
    });
    EXPECT_EQ(logits(testing::load_exact(folder_)), as_saved);
}

TEST_F(KimiLinear, WhichLayersAreLinear) {
    const auto lists = [&](std::vector<int> kda, std::vector<int> full) {
        return respelled([&](Json& c) {
            c["linear_attn_config"]["kda_layers"] = kda;
            c["linear_attn_config"]["full_attn_layers"] = full;
        });
    };
    EXPECT_EQ(lists({1, 3}, {2, 4}), "loaded");
    EXPECT_THAT(lists({1}, {2, 4}),
                AllOf(HasSubstr("kda_layers"), HasSubstr("layer 3"), HasSubstr("listed 0 times")));
    EXPECT_THAT(lists({1, 3}, {2, 3, 4}), HasSubstr("layer 3 is listed 2 times"));
    EXPECT_THAT(lists({1, 3}, {2, 5}),
                AllOf(HasSubstr("full_attn_layers"), HasSubstr("expected 1 to 4, got 5")));
    EXPECT_THAT(lists({0, 3}, {2, 4}), HasSubstr("expected 1 to 4, got 0"));
    EXPECT_THAT(respelled([](Json& c) { c["linear_attn_config"].erase("full_attn_layers"); }),
                AllOf(HasSubstr("full_attn_layers"), HasSubstr("missing")));
    EXPECT_THAT(respelled([](Json& c) { c.erase("linear_attn_config"); }),
                AllOf(HasSubstr("linear_attn_config"), HasSubstr("missing")));
    EXPECT_THAT(respelled([](Json& c) {
                    c["layer_types"] = {"full_attention", "full_attention", "linear_attention",
                                        "full_attention"};
                }),
                HasSubstr("differs from layer_types"));
    EXPECT_THAT(respelled([](Json& c) { c["linear_num_heads"] = 4; }),
                AllOf(HasSubstr("num_heads"), HasSubstr("differs from linear_num_heads"),
                      HasSubstr("expected 4, got 3")));
    EXPECT_THAT(with([](Json& c) { c["linear_head_dim"] = 8; }),
                AllOf(HasSubstr("wrong shape"), HasSubstr("self_attn.")));
}

TEST_F(KimiLinear, WhatLatentKeysNeed) {
    for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
        EXPECT_THAT(with([&](Json& c) { c.erase(key); }),
                    AllOf(HasSubstr(key), HasSubstr("missing")));
        EXPECT_THAT(with([&](Json& c) { c[key] = 0; }), HasSubstr(key));
        EXPECT_THAT(with([&](Json& c) { c[key] = c[key].get<int>() + 1; }),
                    AllOf(HasSubstr("wrong shape"), HasSubstr("layers.1.self_attn.")));
    }
    EXPECT_THAT(with([](Json& c) { c["kv_lora_rank"] = 5000; }),
                AllOf(HasSubstr("layer 1"), HasSubstr("latent rows too wide"),
                      HasSubstr("at most 640, got 5006")));
    EXPECT_THAT(with([](Json& c) { c["q_lora_rank"] = 16; }),
                AllOf(HasSubstr("q_lora_rank"), HasSubstr("expected null, got 16")));
    EXPECT_THAT(with([](Json& c) { c["mla_use_nope"] = false; }), HasSubstr("mla_use_nope"));
    EXPECT_THAT(with([](Json& c) { c["attention_bias"] = true; }), HasSubstr("attention_bias"));
    EXPECT_THAT(with([](Json& c) { c["num_key_value_heads"] = 2; }),
                AllOf(HasSubstr("num_key_value_heads"), HasSubstr("expected 4, got 2")));
}

TEST_F(KimiLinear, MissingWeightsAreNamed) {
    for (const std::string name :
         {"1.self_attn.kv_a_proj_with_mqa.weight", "1.self_attn.kv_a_layernorm.weight",
          "1.self_attn.kv_b_proj.weight", "2.self_attn.f_a_proj.weight", "2.self_attn.A_log",
          "2.self_attn.g_b_proj.weight", "2.self_attn.v_conv1d.weight", "2.self_attn.o_norm.weight",
          "2.block_sparse_moe.gate.e_score_correction_bias"}) {
        copy("kimi_linear");
        edit_tensors([&](Tensors& tensors) {
            std::erase_if(tensors, [&](const auto& t) { return t.name == "model.layers." + name; });
        });
        EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"), HasSubstr("layers." + name),
                                     ::testing::Not(HasSubstr("convert"))));
    }
}

TEST_F(KimiLinear, LayoutsOfItsSoftmaxLayers) {
    const Model model =
        testing::load_exact(folder_, {.attention = "sliding_window:window=9,sink_tokens=2"});
    std::vector<std::string> kinds;
    for (const LayerSpec& layer : model.spec().layers) kinds.push_back(layer.mixer.kind);
    EXPECT_THAT(kinds, ElementsAre("linear", "sliding_window", "linear", "sliding_window"));
    for (const std::string attention : {"bifocal:window=8,far=mlstm", "lolcats:window=8",
                                        "linear:rule=gdn", "linear:rule=kda", "linear:rule=mamba2"})
        EXPECT_THAT(message({.attention = attention}),
                    AllOf(HasSubstr("layer 1: " + attention.substr(0, 5)), HasSubstr("latent rows"),
                          HasSubstr("expected full_attention or sliding_window")));
}

}  // namespace
}  // namespace bifocal
