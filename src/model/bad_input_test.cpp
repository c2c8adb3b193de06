// What is wrong with a folder or file is said in one line, with the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "bifocal/model.h"
#include "formats/gguf/writer.h"
#include "model/testing/checkpoint_copy.h"

namespace bifocal {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = testing::CheckpointCopy::Tensors;

using BadInput = testing::CheckpointCopy;

TEST_F(BadInput, MissingPath) {
    EXPECT_THAT(message_of("/no/such/model.gguf"),
                AllOf(HasSubstr("/no/such/model.gguf"), HasSubstr("no such file")));
}

TEST_F(BadInput, FolderWithoutConfig) {
    EXPECT_THAT(message(), AllOf(HasSubstr("no model"), HasSubstr("config.json")));
}

TEST_F(BadInput, FolderWithoutWeights) {
    copy("llama_tied");
    fs::remove(folder_ / "model.safetensors");
    EXPECT_THAT(message(), HasSubstr("model.safetensors"));
}

TEST_F(BadInput, MissingShard) {
    copy("llama");
    fs::remove(folder_ / "model-00002-of-00004.safetensors");
    EXPECT_THAT(message(), HasSubstr("model-00002-of-00004.safetensors"));
}

TEST_F(BadInput, ForeignFile) {
    std::ofstream(folder_ / "model.gguf") << "this is no model at all, only text";
    EXPECT_THAT(message_of(folder_ / "model.gguf"), HasSubstr("model.gguf"));
}

TEST_F(BadInput, UnknownArchitecture) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["architectures"] = {"MambaForCausalLM"}; });
    EXPECT_THAT(message(), AllOf(HasSubstr("architecture"), HasSubstr("got MambaForCausalLM"),
                                 HasSubstr("LlamaForCausalLM"), HasSubstr("Gemma3ForCausalLM")));
}

TEST_F(BadInput, UnknownGgufArchitecture) {
    gguf::Writer writer;
    writer.add_string("general.architecture", "mamba");
    ASSERT_TRUE(writer.write(folder_ / "model.gguf").ok());
    EXPECT_THAT(message_of(folder_ / "model.gguf"),
                AllOf(HasSubstr("got mamba"), HasSubstr("llama"), HasSubstr("gemma3")));
}

TEST_F(BadInput, MissingKey) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config.erase("hidden_size"); });
    EXPECT_THAT(message(), AllOf(HasSubstr("hidden_size"), HasSubstr("missing")));
}

TEST_F(BadInput, KeyOfAnotherType) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["num_hidden_layers"] = "two"; });
    EXPECT_THAT(message(), HasSubstr("num_hidden_layers"));
}

TEST_F(BadInput, HeadsThatDoNotDivide) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["num_key_value_heads"] = 3; });
    EXPECT_THAT(message(), AllOf(HasSubstr("key-value heads"), HasSubstr("got 3")));
}

TEST_F(BadInput, EpsilonZero) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["rms_norm_eps"] = 0.0; });
    EXPECT_THAT(message(), HasSubstr("epsilon"));
}

TEST_F(BadInput, UnknownActivation) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["hidden_act"] = "relu2"; });
    EXPECT_THAT(message(), AllOf(HasSubstr("activation"), HasSubstr("got relu2")));
}

TEST_F(BadInput, UnknownRopeType) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["rope_parameters"]["rope_type"] = "dynamic"; });
    EXPECT_THAT(message(), AllOf(HasSubstr("rope_type"), HasSubstr("got dynamic")));
}

TEST_F(BadInput, RopeThetaTwiceAndDifferent) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["rope_theta"] = 12345.0; });
    EXPECT_THAT(message(), AllOf(HasSubstr("rope_theta"), HasSubstr("12345")));
}

TEST_F(BadInput, RopeScalingThatDisagreesWithRopeParameters) {
    copy("llama3_rope");
    edit_config([](json::Json& config) {
        config["rope_scaling"] = config["rope_parameters"];
        config["rope_scaling"]["factor"] = 3.5;
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("factor"), HasSubstr("got 3.5")));
    edit_config([](json::Json& config) { config["rope_scaling"] = {{"type", "linear"}}; });
    EXPECT_THAT(message(), AllOf(HasSubstr("type"), HasSubstr("got \"linear\"")));
}

TEST_F(BadInput, OriginalLengthTwiceAndDifferent) {
    copy("llama3_rope");
    edit_config([](json::Json& config) { config["original_max_position_embeddings"] = 17; });
    EXPECT_THAT(message(), AllOf(HasSubstr("original_max_position"), HasSubstr("17")));
}

TEST_F(BadInput, StopTokensThatNoModelHas) {
    copy("llama_tied");
    for (const int64_t bad : {int64_t{-1}, int64_t{1} << 40}) {
        edit_config([&](json::Json& config) { config["eos_token_id"] = {2, bad}; });
        EXPECT_THAT(message(), AllOf(HasSubstr("eos_token_id"), HasSubstr(std::to_string(bad))));
    }
}

TEST_F(BadInput, UnknownLayerType) {
    copy("gemma3");
    edit_config([](json::Json& config) { config["layer_types"][1] = "linear_attention"; });
    EXPECT_THAT(message(), AllOf(HasSubstr("layer_types"), HasSubstr("linear_attention")));
}

TEST_F(BadInput, LayerTypesTooShort) {
    copy("gemma3");
    edit_config([](json::Json& config) { config["layer_types"].erase(0); });
    EXPECT_THAT(message(), AllOf(HasSubstr("layer_types"), HasSubstr("expected 3, got 2")));
}

TEST_F(BadInput, LogitCapping) {
    copy("gemma3");
    edit_config([](json::Json& config) { config["final_logit_softcapping"] = 30.0; });
    EXPECT_THAT(message(), HasSubstr("final_logit_softcapping"));
}

TEST_F(BadInput, MissingTensor) {
    copy("llama_tied");
    edit_tensors([](Tensors& tensors) {
        std::erase_if(tensors, [](const auto& tensor) {
            return tensor.name == "model.layers.1.self_attn.k_proj.weight";
        });
    });
    EXPECT_THAT(message(),
                AllOf(HasSubstr("missing tensor"),
                      HasSubstr("model.layers.1.self_attn.k_proj.weight"), HasSubstr("[24, 32]")));
}

TEST_F(BadInput, WrongShape) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["intermediate_size"] = 48; });
    EXPECT_THAT(message(), AllOf(HasSubstr("wrong shape"), HasSubstr("mlp.gate_proj.weight"),
                                 HasSubstr("expected [48, 32], got [40, 32]")));
}

TEST_F(BadInput, WrongShapeOfAFusedTensor) {
    copy("phi3");
    edit_config([](json::Json& config) { config["num_key_value_heads"] = 1; });
    EXPECT_THAT(message(), AllOf(HasSubstr("wrong shape"), HasSubstr("self_attn.qkv_proj.weight"),
                                 HasSubstr("expected [72, 48], got [96, 48]")));
}

TEST_F(BadInput, VocabularyMismatch) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["vocab_size"] = 98; });
    EXPECT_THAT(message(), AllOf(HasSubstr("embed_tokens"), HasSubstr("expected [98, 32]")));
}

TEST_F(BadInput, IntegerWeights) {
    copy("llama_tied");
    edit_tensors([](Tensors& tensors) {
        std::byte* data = nullptr;
        for (safetensors::NamedTensor& tensor : tensors)
            if (tensor.name == "model.norm.weight")
                tensor.tensor = make_tensor(DType::i32, {32}, &data);
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("i32")));
}

TEST_F(BadInput, TiedHeadThatDiffers) {
    copy("llama3_rope");  // stored untied
    edit_config([](json::Json& config) { config["tie_word_embeddings"] = true; });
    EXPECT_THAT(message(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("differs")));
}

TEST_F(BadInput, UntiedHeadThatIsMissing) {
    copy("llama_tied");
    edit_config([](json::Json& config) { config["tie_word_embeddings"] = false; });
    EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"), HasSubstr("lm_head.weight")));
}

TEST_F(BadInput, UnexpectedTensorsAreListed) {
    copy("llama_tied");
    edit_tensors([](Tensors& tensors) {
        tensors.push_back({"model.layers.0.surprise", tensors[0].tensor});
    });
    const Result<Model> model = Model::load(folder_);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_THAT(model->notes(),
                ::testing::ElementsAre("1 tensors are not used: model.layers.0.surprise"));
}

TEST_F(BadInput, AttentionThatDoesNotFit) {
    copy("llama_tied");
    EXPECT_THAT(message({.attention = "sliding_windw:window=9"}), HasSubstr("sliding_windw"));
    EXPECT_THAT(message({.attention = "sliding_window:window=0"}), HasSubstr("window"));
    EXPECT_THAT(message({.attention = "sliding_window:windo=9"}), HasSubstr("windo"));
}

TEST_F(BadInput, LearnedSinksThatAreNowhere) {
    copy("llama_tied");
    const std::string layout = "sliding_window:window=9,sink=learned";
    EXPECT_THAT(message({.attention = layout}), HasSubstr("self_attn.sinks"));
    EXPECT_THAT(message({.attention = layout, .sink_logits = folder_ / "model.safetensors"}),
                HasSubstr("model.layers.0.self_attn.sinks"));
    EXPECT_THAT(message({.attention = layout, .sink_logits = folder_ / "none"}), HasSubstr("none"));
}

Tensor zeros(DType dtype, std::vector<int64_t> shape) {
    std::byte* data = nullptr;
    return make_tensor(dtype, std::move(shape), &data);
}

TEST_F(BadInput, MoreExpertsForATokenThanThereAre) {
    copy("gpt_oss");
    edit_config([](json::Json& config) { config["num_experts_per_tok"] = 6; });
    EXPECT_THAT(message(),
                AllOf(HasSubstr("num_experts_per_tok"), HasSubstr("expected at most 5, got 6")));
}

TEST_F(BadInput, ExpertCountsThatDisagree) {
    copy("gpt_oss");
    edit_config([](json::Json& config) { config["num_local_experts"] = 4; });
    EXPECT_THAT(message(), AllOf(HasSubstr("wrong shape"), HasSubstr("mlp.router.weight"),
                                 HasSubstr("expected [4, 24], got [5, 24]")));
    copy("gpt_oss");
    edit_tensors([](Tensors& tensors) {
        for (safetensors::NamedTensor& tensor : tensors)
            if (tensor.name == "model.layers.1.mlp.experts.down_proj")
                tensor.tensor = zeros(DType::bf16, {4, 40, 24});
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("wrong shape"), HasSubstr("experts.down_proj"),
                                 HasSubstr("expected [5, 40, 24], got [4, 40, 24]")));
}

TEST_F(BadInput, MissingExperts) {
    copy("minimax");
    edit_tensors([](Tensors& tensors) {
        std::erase_if(tensors, [](const auto& tensor) {
            return tensor.name == "model.layers.2.block_sparse_moe.experts.3.w2.weight";
        });
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"),
                                 HasSubstr("layers.2.block_sparse_moe.experts.3.w2.weight"),
                                 HasSubstr("[32, 40]")));
    copy("gpt_oss");
    edit_tensors([](Tensors& tensors) {
        std::erase_if(tensors, [](const auto& tensor) {
            return tensor.name == "model.layers.0.mlp.experts.gate_up_proj";
        });
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"), HasSubstr("experts.gate_up_proj"),
                                 HasSubstr("[5, 24, 80]")));
}

TEST_F(BadInput, PackedExpertsOfAnotherShape) {
    copy("gpt_oss_mxfp4");
    edit_tensors([](Tensors& tensors) {
        for (safetensors::NamedTensor& tensor : tensors)
            if (tensor.name == "model.layers.0.mlp.experts.gate_up_proj_blocks")
                tensor.tensor = zeros(DType::u8, {6, 128, 2, 8});
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("wrong shape"), HasSubstr("gate_up_proj_blocks"),
                                 HasSubstr("expected [6, 128, 1, 16], got [6, 128, 2, 8]")));
    edit_tensors([](Tensors& tensors) {
        for (safetensors::NamedTensor& tensor : tensors)
            if (tensor.name == "model.layers.0.mlp.experts.gate_up_proj_blocks")
                tensor.tensor = zeros(DType::bf16, {6, 128, 1, 16});
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("unsupported type"), HasSubstr("gate_up_proj_blocks"),
                                 HasSubstr("expected u8, got bf16")));
}

TEST_F(BadInput, PackedExpertsWithoutScales) {
    copy("gpt_oss_mxfp4");
    edit_tensors([](Tensors& tensors) {
        std::erase_if(tensors, [](const auto& tensor) {
            return tensor.name == "model.layers.1.mlp.experts.down_proj_scales";
        });
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("missing tensor"), HasSubstr("down_proj_scales"),
                                 HasSubstr("[6, 32, 2]")));
}

TEST_F(BadInput, AScaleOfPackedExpertsThatIsNoNumber) {
    copy("gpt_oss_mxfp4");
    edit_tensors([](Tensors& tensors) {
        for (safetensors::NamedTensor& tensor : tensors)
            if (tensor.name == "model.layers.1.mlp.experts.down_proj_scales") {
                std::byte* data = nullptr;
                tensor.tensor = make_tensor(DType::u8, {6, 32, 2}, &data);
                data[17] = std::byte{255};
            }
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("down_proj_scales', byte 17"), HasSubstr("got 255")));
}

TEST_F(BadInput, PackedExpertsThatDoNotFillBlocks) {
    copy("gpt_oss_mxfp4");
    edit_config([](json::Json& config) { config["intermediate_size"] = 72; });
    EXPECT_THAT(message(),
                AllOf(HasSubstr("layer 0"), HasSubstr("multiple of 32"), HasSubstr("got 72")));
}

TEST_F(BadInput, MiniMaxWithoutItsLayers) {
    copy("minimax");
    edit_config([](json::Json& config) { config["rotary_dim"] = 6; });
    EXPECT_THAT(message(), AllOf(HasSubstr("rotary_dim"), HasSubstr("expected 12, got 6")));
    edit_config([](json::Json& config) { config.erase("layer_types"); });
    EXPECT_THAT(message(), AllOf(HasSubstr("layer_types"), HasSubstr("missing")));
}

TEST_F(BadInput, LearnedSinksFromAFile) {
    copy("llama_tied");
    const float logits[] = {0.5f, -1.0f, 2.0f, 0.0f};
    std::vector<safetensors::NamedTensor> sinks;
    for (const char* layer : {"0", "1"})
        sinks.push_back({std::string("model.layers.") + layer + ".self_attn.sinks",
                         make_tensor_f32({4}, logits)});
    ASSERT_TRUE(safetensors::write_file(folder_ / "sinks", sinks).ok());
    EXPECT_EQ(message({.attention = "sliding_window:window=9,sink=learned",
                       .sink_logits = folder_ / "sinks"}),
              "loaded");
}

}  // namespace
}  // namespace bifocal
