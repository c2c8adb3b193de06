// Experts of Qwen3-Next and Kimi-Linear from their configuration to their sum, against transformers
// (tools/golden/experts.py), in every form that checkpoints store them in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/json/json.h"
#include "formats/safetensors/file.h"
#include "model/build_experts.h"
#include "model/families/experts.h"
#include "model/identity.h"
#include "model/stored_experts.h"
#include "model/testing/golden.h"
#include "ops/testing/exec.h"

namespace bifocal {
namespace {

using json::Fields;
using json::Json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

const std::string kBlocks = std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/experts/";

struct Block {
    const ExpertFamily* family;
    safetensors::File file;
    Json config = Json::parse(file.metadata().at("about"))["config"];
    Checkpoint checkpoint{{}, "block", false, false};
    ModelSpec spec;

    explicit Block(const std::string& name = "qwen3_next",
                   const ExpertFamily& of_family = kQwenExperts)
        : family(&of_family),
          file(safetensors::File::open(kBlocks + name + ".safetensors").value()) {
        for (const safetensors::TensorInfo& info : file.tensors())
            if (info.name.starts_with("model."))
                checkpoint.tensors.emplace(info.name, file.tensor(info.name).value());
        describe();
    }
    void describe() {
        spec.d_model = config["hidden_size"];
        const int64_t n_layers = config["num_hidden_layers"];
        const LayerExperts layers =
            experts_from_hf(*family, Fields::of(config, "config.json").value(), n_layers).value();
        spec.layers.assign(layers.size(), {});
        for (size_t i = 0; i < layers.size(); ++i) spec.layers[i].experts = layers[i];
    }
    // All experts of a projection one after the other; `parts` of them side by side for each.
    Tensor all(const std::vector<std::string>& parts) {
        std::vector<float> values;
        std::vector<int64_t> shape;
        for (int64_t e = 0; e < 7; ++e)
            for (const std::string& part : parts) {
                const std::string name =
                    fmt::format("model.layers.1.mlp.experts.{}.{}_proj.weight", e, part);
                const Tensor tensor = file.tensor(name).value();
                shape = {7, tensor.shape[0] * std::ssize(parts), tensor.shape[1]};
                const size_t begin = values.size();
                values.resize(begin + static_cast<size_t>(tensor.elems()));
                std::memcpy(values.data() + begin, tensor.bytes.data(), tensor.bytes.size());
                checkpoint.tensors.erase(name);
            }
        return make_tensor_f32(shape, values);
    }
    std::vector<float> floats(const std::string& name) const {
        return testing::Golden{file, {}}.floats(name);
    }
    void expect_output(const std::string& name) {
        WeightFinder finder(checkpoint, spec);
        LayerInfo info;
        const auto built = build_experts(spec, finder, Precision::exact, 1, info);
        ASSERT_TRUE(built.ok()) << built.error().message();
        EXPECT_EQ(finder.unused(), std::vector<std::string>{});
        const ops::Experts& moe = **built;
        const std::vector<float> x = floats("x");
        const int64_t M = spec.d_model, N = std::ssize(x) / M;
        std::vector<float> y(x.size());
        testing::ExecFor exec(2, moe.workspace_bytes(N));
        moe.forward(View<const float, 2>(x.data(), {N, M}), View<float, 2>(y.data(), {N, M}),
                    exec.exec);
        EXPECT_LE(testing::largest_difference(y, floats(name)), 1e-5);
    }
};

TEST(Experts, OneTensorEach) {
    Block block;
    block.expect_output("y");
}

TEST(Experts, WeightsThatDoNotSumToOne) {
    Block block;
    block.config["norm_topk_prob"] = false;
    block.describe();
    block.expect_output("y_plain");
}

TEST(Experts, GateAndUpOfAllInOneTensor) {
    Block block;
    const std::string stem = "model.layers.1.mlp.experts.";
    block.checkpoint.tensors.emplace(stem + "gate_up_proj", block.all({"gate", "up"}));
    block.checkpoint.tensors.emplace(stem + "down_proj", block.all({"down"}));
    block.expect_output("y");
}

// As a GGUF file has them.
Block gguf_block() {
    Block block;
    WeightMap tensors;
    for (const char* part : {"gate", "up", "down"}) {
        tensors.emplace(fmt::format("blk.1.ffn_{}_exps.weight", part), block.all({part}));
        const auto shared = fmt::format("model.layers.1.mlp.shared_expert.{}_proj.weight", part);
        tensors.emplace(fmt::format("blk.1.ffn_{}_shexp.weight", part),
                        block.file.tensor(shared).value());
    }
    tensors.emplace("blk.1.ffn_gate_inp.weight",
                    block.file.tensor("model.layers.1.mlp.gate.weight").value());
    Tensor open = block.file.tensor("model.layers.1.mlp.shared_expert_gate.weight").value();
    open.shape = {20};
    tensors.emplace("blk.1.ffn_gate_inp_shexp.weight", open);
    block.checkpoint.tensors = tensors;
    block.checkpoint.is_gguf = true;
    return block;
}

TEST(Experts, GgufNames) {
    gguf_block().expect_output("y");
}

TEST(Experts, WhatAGgufFileCanGetWrong) {
    const auto message = [](const std::function<void(WeightMap&)>& edit) {
        Block block = gguf_block();
        edit(block.checkpoint.tensors);
        WeightFinder finder(block.checkpoint, block.spec);
        LayerInfo info;
        const auto built = build_experts(block.spec, finder, Precision::exact, 1, info);
        return built.ok() ? "accepted" : built.error().message();
    };
    const std::string up = "blk.1.ffn_up_exps.weight";
    EXPECT_THAT(message([&](WeightMap& t) { t.erase(up); }),
                AllOf(HasSubstr("missing tensor"), HasSubstr(up), HasSubstr("[7, 12, 20]")));
    EXPECT_THAT(message([&](WeightMap& t) { t[up] = t[up].rows(0, 6); }),
                AllOf(HasSubstr(up), HasSubstr("expected [7, 12, 20], got [6, 12, 20]")));
    EXPECT_THAT(message([](WeightMap& t) { t.erase("blk.1.ffn_gate_inp_shexp.weight"); }),
                AllOf(HasSubstr("missing tensor"), HasSubstr("ffn_gate_inp_shexp")));
    EXPECT_THAT(message([&](WeightMap& t) {
                    std::byte* data = nullptr;
                    t[up] = make_tensor(DType::mxfp4, {7, 12, 32}, &data);
                }),
                AllOf(HasSubstr(up), HasSubstr("got [7, 12, 32]")));
}

Block kimi_block() {
    return Block("kimi_linear", kKimiExperts);
}

TEST(KimiExperts, OfTheBestGroups) {
    kimi_block().expect_output("y");
}

TEST(KimiExperts, OfOneGroup) {
    Block block = kimi_block();
    block.config["num_expert_group"] = block.config["topk_group"] = 1;
    block.describe();
    block.expect_output("y_one_group");
}

TEST(KimiExperts, WeightsThatDoNotSumToTheScale) {
    Block block = kimi_block();
    block.config["moe_renormalize"] = false;
    block.describe();
    block.expect_output("y_plain");
}

// What `convert` carries and `inspect` lists.
TEST(KimiExperts, NoTensorIsLeftBehind) {
    const Block block = kimi_block();
    WeightFinder finder(block.checkpoint, block.spec);
    const StoredExperts stored = StoredExperts::find(finder, block.spec, 1).value();
    std::vector<std::string> names, expected;
    for (const auto& [name, tensor] : stored.tensors()) names.push_back("model.layers.1." + name);
    for (const auto& [name, tensor] : block.checkpoint.tensors) expected.push_back(name);
    EXPECT_THAT(names, UnorderedElementsAreArray(expected));
    LayerInfo info;
    ASSERT_TRUE(build_experts(block.spec, finder, Precision::exact, 1, info).ok());
    EXPECT_THAT(info.weights,
                ElementsAre("router f32 [16, 16]", "router_correction f32 [16]",
                            "experts.gate f32 [16, 8, 16]", "experts.up f32 [16, 8, 16]",
                            "experts.down f32 [16, 16, 8]", "shared_expert.gate f32 [16, 16]",
                            "shared_expert.up f32 [16, 16]", "shared_expert.down f32 [16, 16]"));
}

TEST(KimiExperts, WhatAFolderCanGetWrong) {
    const auto message = [](const std::string& name, int64_t rows) {
        Block block = kimi_block();
        WeightMap& tensors = block.checkpoint.tensors;
        const std::string full = "model.layers.1.block_sparse_moe." + name;
        if (rows == 0) tensors.erase(full);
        if (rows > 0) tensors[full] = tensors[full].rows(0, rows);
        WeightFinder finder(block.checkpoint, block.spec);
        LayerInfo info;
        const auto built = build_experts(block.spec, finder, Precision::exact, 1, info);
        return built.ok() ? "accepted" : built.error().message();
    };
    for (const char* name : {"gate.e_score_correction_bias", "experts.15.w3.weight",
                             "shared_experts.down_proj.weight"}) {
        EXPECT_THAT(message(name, 0), AllOf(HasSubstr("missing tensor"), HasSubstr(name)));
        EXPECT_THAT(message(name, 7), AllOf(HasSubstr(name), HasSubstr("got [7")));
    }
}

// Two sequences may not go on from each other's snapshots.
TEST(KimiExperts, TheGatingIsPartOfTheModelsIdentity) {
    Block block = kimi_block();
    const uint64_t identity = model_identity(block.spec, {});
    block.spec.layers[1].experts->gating.scale = 2;
    EXPECT_NE(model_identity(block.spec, {}), identity);
}

}  // namespace
}  // namespace bifocal
