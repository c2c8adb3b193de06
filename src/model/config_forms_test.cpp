// The same checkpoint described in other ways gives the same logits: files of older transformers,
// models whose text part is one of several, defaults left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_spec.h"
#include "model/testing/checkpoint_copy.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

using json::Json;

class ConfigForms : public testing::CheckpointCopy {
  protected:
    void expect_same_logits(const std::string& name) {
        const testing::Golden golden = testing::golden_of(name);
        const Model model = testing::load_exact(folder_);
        EXPECT_EQ(model.notes(), std::vector<std::string>{});
        EXPECT_LE(
            testing::largest_difference(testing::all_logits(model.decoder(), golden.tokens, 48),
                                        golden.floats("logits")),
            1e-4);
    }
};

// Before version 5: rope_theta at the top, rope_scaling with "type".
Json old_rope(Json& config) {
    Json rope = config["rope_parameters"];
    config.erase("rope_parameters");
    config["rope_theta"] = rope["rope_theta"];
    rope.erase("rope_theta");
    rope["type"] = rope["rope_type"];
    rope.erase("rope_type");
    return rope;
}

TEST_F(ConfigForms, OldLlama3Scaling) {
    copy("llama3_rope");
    edit_config([](Json& config) { config["rope_scaling"] = old_rope(config); });
    expect_same_logits("llama3_rope");
}

TEST_F(ConfigForms, OldGptOss) {
    copy("gpt_oss");
    edit_config([](Json& config) {
        config["rope_scaling"] = old_rope(config);
        config["num_experts"] = config["num_local_experts"];
        for (const char* key : {"layer_types", "attention_bias", "rms_norm_eps", "swiglu_alpha",
                                "tie_word_embeddings"})
            config.erase(key);
    });
    expect_same_logits("gpt_oss");
}

TEST_F(ConfigForms, RopeSaidTwiceTheSame) {
    copy("llama3_rope");
    edit_config([](Json& config) {
        config["rope_scaling"] = config["rope_parameters"];
        config["rope_scaling"]["type"] = config["rope_parameters"]["rope_type"];
    });
    expect_same_logits("llama3_rope");
}

TEST_F(ConfigForms, OldDefaultRope) {
    copy("llama_tied");
    edit_config([](Json& config) {
        old_rope(config);
        config["rope_scaling"] = nullptr;
    });
    expect_same_logits("llama_tied");
}

TEST_F(ConfigForms, OldLongrope) {
    copy("phi3_longrope");
    edit_config([](Json& config) {
        Json rope = old_rope(config);
        config["partial_rotary_factor"] = rope["partial_rotary_factor"];
        config["rope_scaling"] = {{"type", "su"},
                                  {"long_factor", rope["long_factor"]},
                                  {"short_factor", rope["short_factor"]}};
    });
    expect_same_logits("phi3_longrope");
}

TEST_F(ConfigForms, OldGemma3) {
    copy("gemma3");
    edit_config([](Json& config) {
        const Json rope = config["rope_parameters"];
        config.erase("rope_parameters");
        config["rope_theta"] = rope["full_attention"]["rope_theta"];
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
        config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
        config.erase("layer_types");
        config["sliding_window_pattern"] = 2;
    });
    expect_same_logits("gemma3");
}

TEST_F(ConfigForms, WindowedLayersByRule) {
    copy("qwen2_window");
    edit_config([](Json& config) {
        config.erase("layer_types");
        config["use_sliding_window"] = true;
        config["max_window_layers"] = 1;
    });
    expect_same_logits("qwen2_window");
}

TEST_F(ConfigForms, WindowThatIsSwitchedOff) {
    copy("qwen2");
    edit_config([](Json& config) {
        config.erase("layer_types");
        config["sliding_window"] = 5;
        config["use_sliding_window"] = false;
        config["max_window_layers"] = 0;
    });
    expect_same_logits("qwen2");
}

TEST_F(ConfigForms, NopeLayersByInterval) {
    copy("smollm3");
    edit_config([](Json& config) { config.erase("no_rope_layers"); });
    expect_same_logits("smollm3");
}

TEST_F(ConfigForms, ArchitectureFromModelType) {
    copy("mistral");
    edit_config([](Json& config) { config.erase("architectures"); });
    expect_same_logits("mistral");
}

TEST_F(ConfigForms, TextPartOfAModelThatAlsoSees) {
    for (const std::string prefix : {"model.language_model.", "language_model.model."}) {
        copy("gemma3");
        edit_config([](Json& config) {
            Json whole = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                          {"model_type", "gemma3"}};
            whole["text_config"] = config;
            config = whole;
        });
        edit_tensors([&](Tensors& tensors) {
            for (safetensors::NamedTensor& tensor : tensors)
                tensor.name = prefix + tensor.name.substr(std::string("model.").size());
        });
        expect_same_logits("gemma3");
    }
}

TEST_F(ConfigForms, StopTokensOfGenerationConfig) {
    copy("llama_tied");
    std::ofstream(folder_ / "generation_config.json") << R"({"eos_token_id": [7, 2, 1000]})";
    const Model model = testing::load_exact(folder_);
    EXPECT_EQ(model.stop_tokens(), (std::vector<int32_t>{2, 5, 7}));
    EXPECT_THAT(model.notes(), ::testing::ElementsAre("stop token 1000 is outside the vocabulary"));
}

TEST_F(ConfigForms, ChatTemplates) {
    copy("llama_tied");
    EXPECT_FALSE(testing::load_exact(folder_).chat_template().has_value());
    std::ofstream(folder_ / "tokenizer_config.json")
        << R"({"chat_template": [{"name": "tools", "template": "T"},
                                 {"name": "default", "template": "D"}]})";
    EXPECT_EQ(testing::load_exact(folder_).chat_template(), "D");
    std::ofstream(folder_ / "tokenizer_config.json") << R"({"chat_template": "C"})";
    EXPECT_EQ(testing::load_exact(folder_).chat_template(), "C");
    std::ofstream(folder_ / "chat_template.jinja") << "J";
    EXPECT_EQ(testing::load_exact(folder_).chat_template(), "J");
}

TEST_F(ConfigForms, TokenizerLargerThanTheEmbedding) {
    copy("llama_tied");
    const auto write_tokenizer = [&](int tokens) {
        Json vocabulary = Json::object();
        for (int i = 0; i < tokens; ++i) vocabulary["t" + std::to_string(i)] = i;
        std::ofstream(folder_ / "tokenizer.json")
            << Json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}}
                   .dump();
    };
    write_tokenizer(98);
    const Result<Model> larger = Model::load(folder_);
    ASSERT_FALSE(larger.ok());
    EXPECT_THAT(larger.error().message(), ::testing::HasSubstr("expected at most 97, got 98"));
    write_tokenizer(90);
    const Result<Model> smaller = Model::load(folder_);
    ASSERT_TRUE(smaller.ok()) << smaller.error().message();
    EXPECT_THAT(smaller->notes(), ::testing::ElementsAre(::testing::HasSubstr("7 rows")));
    EXPECT_NE(smaller->tokenizer(), nullptr);
}

}  // namespace
}  // namespace bifocal
