// Checkpoints with linear layers of their own: what their numbers mean in config.json and in GGUF
// metadata, what is refused, and which layers --attention replaces.
#include "model/families/linear_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/gguf/writer.h"
#include "model/families/readers.h"
#include "model/testing/checkpoint_copy.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

using json::Json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LinearLayers : public testing::CheckpointCopy {
  protected:
    // What a config says after an edit of this golden checkpoint.
    std::string with(const std::string& name, const std::function<void(Json&)>& edit) {
        copy(name);
        edit_config(edit);
        return message();
    }
    std::vector<float> logits(const ModelOptions& options = {}) {
        const Model model = testing::load_exact(folder_, options);
        return testing::all_logits(model.decoder(), testing::golden_of("qwen3_5").tokens, 48);
    }
    std::string write_layout(const std::string& text) {
        std::ofstream(folder_ / "layout.json") << text;
        return "@" + (folder_ / "layout.json").string();
    }
};

TEST_F(LinearLayers, TypesThatDisagreeWithTheInterval) {
    EXPECT_EQ(with("qwen3_5", [](Json& c) { c["full_attention_interval"] = 2; }), "loaded");
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["full_attention_interval"] = 3; }),
                AllOf(HasSubstr("layer_types"), HasSubstr("layer 1"), HasSubstr("interval 3"),
                      HasSubstr("expected linear_attention, got full_attention")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["full_attention_interval"] = 0; }),
                HasSubstr("full_attention_interval"));
}

TEST_F(LinearLayers, TypesByInterval) {
    copy("qwen3_5");
    edit_config([](Json& c) {
        c.erase("layer_types");
        c["full_attention_interval"] = 2;
    });
    EXPECT_LE(testing::largest_difference(logits(), testing::golden_of("qwen3_5").floats("logits")),
              1e-4);
}

// What files of these families may leave out.
TEST_F(LinearLayers, DefaultsOfTheFamilies) {
    for (const std::string name : {"qwen3_next", "qwen3_5_whole"}) {
        copy(name);
        edit_config([](Json& c) {
            Json& text = c.contains("text_config") ? c["text_config"] : c;
            text["rope_parameters"].erase("partial_rotary_factor");  // a quarter of a head
            text.erase("linear_conv_kernel_dim");                    // 4
            text.erase("layer_types");                               // every fourth is softmax
        });
        const testing::Golden golden = testing::golden_of(name);
        const Model model = testing::load_exact(folder_);
        EXPECT_LE(
            testing::largest_difference(testing::all_logits(model.decoder(), golden.tokens, 48),
                                        golden.floats("logits")),
            1e-4);
    }
}

TEST_F(LinearLayers, TypesThatAreNone) {
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["layer_types"][0] = "sliding_attention"; }),
                AllOf(HasSubstr("layer_types"), HasSubstr("got sliding_attention")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["layer_types"].erase(0); }),
                AllOf(HasSubstr("layer_types"), HasSubstr("expected 3, got 2")));
}

TEST_F(LinearLayers, SizesThatCannotBe) {
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_num_value_heads"] = 5; }),
                AllOf(HasSubstr("value heads"), HasSubstr("multiple of the 2 key heads, got 5")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_num_key_heads"] = 1 << 20; }),
                AllOf(HasSubstr("key heads"), HasSubstr("got 1048576")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_conv_kernel_dim"] = 1; }),
                AllOf(HasSubstr("convolution"), HasSubstr("got 1")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_key_head_dim"] = 0; }),
                HasSubstr("linear_key_head_dim"));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["hidden_act"] = "gelu_pytorch_tanh"; }),
                AllOf(HasSubstr("activation"), HasSubstr("got gelu_pytorch_tanh")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["output_gate_type"] = "sigmoid"; }),
                AllOf(HasSubstr("output_gate_type"), HasSubstr("got sigmoid")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["rms_norm_offset"] = 0.5; }),
                AllOf(HasSubstr("rms_norm_offset"), HasSubstr("got 0.5")));
}

// The tensors are of other sizes than config.json says.
TEST_F(LinearLayers, SizesThatAreNotThoseOfTheTensors) {
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_value_head_dim"] = 6; }),
                AllOf(HasSubstr("wrong shape"), HasSubstr("linear_attn.out_proj.weight"),
                      HasSubstr("expected [32, 36], got [32, 30]")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["linear_key_head_dim"] = 4; }),
                AllOf(HasSubstr("wrong shape"), HasSubstr("linear_attn.in_proj_qkv.weight"),
                      HasSubstr("expected [46, 32], got [62, 32]")));
    EXPECT_THAT(with("qwen3_next", [](Json& c) { c["linear_key_head_dim"] = 4; }),
                AllOf(HasSubstr("wrong shape"), HasSubstr("linear_attn.in_proj_qkvz.weight"),
                      HasSubstr("expected [76, 32], got [92, 32]")));
    EXPECT_THAT(with("qwen3_5", [](Json& c) { c["attn_output_gate"] = false; }),
                AllOf(HasSubstr("wrong shape"), HasSubstr("self_attn.q_proj.weight"),
                      HasSubstr("expected [64, 32], got [128, 32]")));
}

TEST_F(LinearLayers, MissingWeights) {
    for (const std::string name :
         {"linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.conv1d.weight",
          "linear_attn.norm.weight", "linear_attn.out_proj.weight", "linear_attn.in_proj_a.weight",
          "linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkv.weight"}) {
        copy("qwen3_5");
        edit_tensors([&](Tensors& tensors) {
            std::erase_if(tensors,
                          [&](const auto& t) { return t.name == "model.layers.2." + name; });
        });
        EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"), HasSubstr("layers.2." + name)));
    }
}

// Which layers have experts; of a model in which none has, what else is said of them means nothing.
TEST_F(LinearLayers, ExpertsAreReadWhereTheyAre) {
    const auto changed = [&](auto change) {
        return with("qwen3_next", [&](Json& c) {
            c["num_experts_per_tok"] = 2;
            change(c);
        });
    };
    EXPECT_THAT(changed([](Json& c) { c["mlp_only_layers"] = {1}; }),
                AllOf(HasSubstr("missing tensor"), HasSubstr("layers.3.mlp.")));
    EXPECT_THAT(changed([](Json& c) { c["decoder_sparse_step"] = 1; }),
                AllOf(HasSubstr("missing tensor"), HasSubstr("layers.0.mlp.")));
    EXPECT_THAT(changed([](Json& c) {
                    c["mlp_only_layers"] = {1};
                    c["num_experts_per_tok"] = 9;
                }),
                AllOf(HasSubstr("num_experts_per_tok"), HasSubstr("at most 4, got 9")));
    EXPECT_THAT(changed([](Json& c) {
                    c["mlp_only_layers"] = {1};
                    c.erase("num_experts");
                }),
                HasSubstr("num_local_experts"));
    EXPECT_EQ(changed([](Json& c) {
                  c["mlp_only_layers"] = {1};
                  c["num_experts"] = 0;
              }),
              "loaded");
}

// The head of a model that also sees images is tied by the outer config.
TEST_F(LinearLayers, TheOuterConfigTiesTheHead) {
    EXPECT_EQ(
        with("qwen3_5_whole", [](Json& c) { c["text_config"]["tie_word_embeddings"] = true; }),
        "loaded");
    EXPECT_THAT(with("qwen3_5_whole", [](Json& c) { c["tie_word_embeddings"] = true; }),
                AllOf(HasSubstr("lm_head.weight"), HasSubstr("differs")));
}

TEST_F(LinearLayers, SpecReplacesSoftmaxLayersOnly) {
    copy("qwen3_5");
    const auto mixers = [&](const std::string& attention) {
        std::vector<std::string> kinds;
        const Model model = testing::load_exact(folder_, {.attention = attention});
        for (const LayerSpec& layer : model.spec().layers) kinds.push_back(layer.mixer.kind);
        return kinds;
    };
    using ::testing::ElementsAre;
    EXPECT_THAT(mixers(""), ElementsAre("linear", "full_attention", "linear"));
    EXPECT_THAT(mixers("sliding_window:window=9"),
                ElementsAre("linear", "sliding_window", "linear"));
    EXPECT_EQ(logits({.attention = "full"}), logits());
}

TEST_F(LinearLayers, ALayoutFileSaysEveryLayer) {
    copy("qwen3_5");
    const std::string own =
        R"({"kind": "linear", "rule": "gdn", "form": "qwen", "key_heads": 2, "value_heads": 6,
            "key_dim": 8, "value_dim": 5, "norm_eps": 1e-4})";
    EXPECT_EQ(logits({.attention = write_layout("[" + own + ", \"full\", " + own + "]")}),
              logits());
    // A layer may be replaced where the weights are there.
    const std::string negative =
        own.substr(0, own.size() - 1) + R"(, "negative_eigenvalues": true})";
    EXPECT_NE(logits({.attention = write_layout("[" + own + ", \"full\", " + negative + "]")}),
              logits());
    EXPECT_THAT(message({.attention = write_layout(R"(["full", "full", "full"])")}),
                AllOf(HasSubstr("missing tensor"), HasSubstr("layers.0.self_attn.")));
}

TEST_F(LinearLayers, TiledValuesAreTheGroupedOnesInAnotherOrder) {
    copy("qwen3_5");
    const Model gguf = testing::load_exact((folder_ / "model.gguf").string());
    EXPECT_THAT(gguf.info().layers[0].mixer, HasSubstr("value_order=tiled"));
    EXPECT_THAT(testing::load_exact(folder_).info().layers[0].mixer,
                HasSubstr("value_order=grouped"));
    const Model next = testing::load_exact(testing::kFolder + "qwen3_next/model.gguf");
    EXPECT_THAT(next.info().layers[0].mixer, HasSubstr("value_order=grouped"));
}

TEST_F(LinearLayers, IdentityTellsGatesAndOrdersApart) {
    const Model model = testing::load_exact(testing::kFolder + "qwen3_5");
    EXPECT_EQ(model.identity(), testing::load_exact(testing::kFolder + "qwen3_5",
                                                    {.attention = "sliding_window:window=9"})
                                    .identity());
    copy("qwen3_5");
    edit_config([](Json& c) {
        c["linear_num_key_heads"] = 1;  // the same shapes, other heads
        c["linear_key_head_dim"] = 16;
    });
    EXPECT_EQ(message(), "loaded");
    EXPECT_NE(testing::load_exact(folder_).identity(), model.identity());
}

// Metadata of GGUF files.
struct GgufNumbers {
    std::map<std::string, uint32_t> integers{
        {"block_count", 4},          {"context_length", 64},       {"embedding_length", 32},
        {"feed_forward_length", 40}, {"attention.head_count", 4},  {"attention.head_count_kv", 2},
        {"rope.dimension_count", 8}, {"attention.key_length", 16}, {"attention.value_length", 16},
        {"vocab_size", 11},          {"ssm.conv_kernel", 4},       {"ssm.state_size", 8},
        {"ssm.group_count", 2},      {"ssm.time_step_rank", 6},    {"ssm.inner_size", 30},
    };
    std::vector<bool> recurrent;
    bool has_sections = true;
    std::string architecture = "qwen35";
};

Result<ModelSpec> read(const GgufNumbers& numbers) {
    gguf::Writer writer;
    const auto key = [&](const std::string& name) { return numbers.architecture + "." + name; };
    writer.add_string("general.architecture", numbers.architecture);
    for (const auto& [name, value] : numbers.integers) writer.add_u32(key(name), value);
    writer.add_f32(key("attention.layer_norm_rms_epsilon"), 1e-6f);
    const int32_t sections[] = {2, 1, 1, 0};
    if (numbers.has_sections) writer.add_i32_array(key("rope.dimension_sections"), sections);
    if (!numbers.recurrent.empty())
        writer.add_bool_array(key("attention.recurrent_layers"), numbers.recurrent);
    const std::vector<std::byte> bytes = writer.bytes();
    const gguf::File file = gguf::File::open_bytes(bytes, "m.gguf").value();
    const Family* family = family_of_gguf(numbers.architecture, "m.gguf").value();
    return spec_from_gguf(*family, file, {}, 0);
}

std::string message_of(const GgufNumbers& numbers) {
    const Result<ModelSpec> spec = read(numbers);
    return spec.ok() ? "accepted" : spec.error().message();
}

std::string kinds(const GgufNumbers& numbers) {
    const Result<ModelSpec> spec = read(numbers);
    if (!spec.ok()) return spec.error().message();
    std::string letters;
    for (const LayerSpec& layer : spec->layers) letters += layer.is_native_linear ? 'L' : 'F';
    return letters;
}

TEST(LinearLayersOfGguf, LayersByIntervalOrList) {
    GgufNumbers numbers;
    EXPECT_EQ(kinds(numbers), "LLLF");
    numbers.integers["full_attention_interval"] = 2;
    EXPECT_EQ(kinds(numbers), "LFLF");
    numbers.recurrent = {false, true, true, false};
    EXPECT_EQ(kinds(numbers), "FLLF");
    numbers.integers["nextn_predict_layers"] = 1;
    EXPECT_EQ(kinds(numbers), "FLL");
    numbers.recurrent.pop_back();
    EXPECT_EQ(kinds(numbers), "FLL");
    numbers.recurrent.pop_back();
    EXPECT_THAT(kinds(numbers),
                AllOf(HasSubstr("attention.recurrent_layers"), HasSubstr("expected 3, got 2")));
    numbers.integers["nextn_predict_layers"] = 4;
    EXPECT_THAT(kinds(numbers), AllOf(HasSubstr("nextn_predict_layers"), HasSubstr("got 4")));
}

TEST(LinearLayersOfGguf, EpsilonAndOffset) {
    const Result<ModelSpec> spec = read({});
    ASSERT_TRUE(spec.ok());
    EXPECT_EQ(spec->norm_offset, 0);  // converters have added it
    EXPECT_EQ(spec->layers[0].mixer.options["norm_eps"], 1e-6);
    EXPECT_EQ(spec->layers[0].mixer.options["value_order"], "tiled");
    EXPECT_TRUE(spec->layers[3].context.output_gate);
}

TEST(LinearLayersOfGguf, SizesThatCannotBe) {
    for (const char* key : {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                            "ssm.time_step_rank", "ssm.inner_size"}) {
        GgufNumbers numbers;
        numbers.integers.erase(key);
        EXPECT_THAT(message_of(numbers), HasSubstr(key));
        numbers.integers[key] = 0;
        EXPECT_THAT(message_of(numbers), HasSubstr(key));
    }
    GgufNumbers numbers;
    numbers.integers["ssm.inner_size"] = 31;
    EXPECT_THAT(message_of(numbers),
                AllOf(HasSubstr("ssm.inner_size"), HasSubstr("a multiple of 6, got 31")));
    numbers = {};
    numbers.integers["ssm.group_count"] = 4;
    EXPECT_THAT(message_of(numbers), HasSubstr("a multiple of the 4 key heads, got 6"));
}

TEST(LinearLayersOfGguf, SectionsOfQwen35) {
    GgufNumbers numbers;
    numbers.has_sections = false;
    EXPECT_THAT(message_of(numbers), HasSubstr("qwen35.rope.dimension_sections"));
    numbers.architecture = "qwen3next";
    EXPECT_EQ(message_of(numbers), "accepted");
    EXPECT_EQ(read(numbers)->layers[0].mixer.options["value_order"], "grouped");
}

TEST(LinearLayersOfGguf, ExpertsAreRead) {
    GgufNumbers numbers;
    numbers.architecture = "qwen3next";
    numbers.integers["expert_count"] = 8;
    EXPECT_THAT(message_of(numbers), HasSubstr("qwen3next.expert_used_count"));
    numbers.integers["expert_used_count"] = 3;
    EXPECT_THAT(message_of(numbers), HasSubstr("qwen3next.expert_feed_forward_length"));
    numbers.integers["expert_feed_forward_length"] = 12;
    numbers.integers["expert_shared_feed_forward_length"] = 20;
    ASSERT_EQ(message_of(numbers), "accepted");
    const auto experts = read(numbers)->layers[0].experts;
    ASSERT_TRUE(experts.has_value());
    EXPECT_EQ(experts->n_experts, 8);
    EXPECT_EQ(experts->n_used, 3);
    EXPECT_EQ(experts->d_ff, 12);
    EXPECT_EQ(experts->d_ff_shared, 20);
}

}  // namespace
}  // namespace bifocal
