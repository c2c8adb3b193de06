// Qwen3-Next's experts from their configuration to their sum, against transformers
// (tools/golden/experts.py), in every form that checkpoints store them in; and what configurations
// say about experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/json/json.h"
#include "formats/safetensors/file.h"
#include "model/build_experts.h"
#include "model/families/experts.h"
#include "model/testing/golden.h"
#include "ops/testing/exec.h"

namespace bifocal {
namespace {

using json::Fields;
using json::Json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kBlock = std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/experts/";

Result<LayerExperts> read(const ExpertFamily& family, const Json& config, int64_t n_layers) {
    return experts_from_hf(family, Fields::of(config, "config.json").value(), n_layers);
}

struct Block {
    safetensors::File file = safetensors::File::open(kBlock + "qwen3_next.safetensors").value();
    Json config = Json::parse(file.metadata().at("about"))["config"];
    Checkpoint checkpoint{{}, "block", false, false};
    ModelSpec spec;

    Block() {
        for (const safetensors::TensorInfo& info : file.tensors())
            if (info.name.starts_with("model."))
                checkpoint.tensors.emplace(info.name, file.tensor(info.name).value());
        describe();
    }
    void describe() {
        spec.d_model = config["hidden_size"];
        const LayerExperts layers = read(kQwenExperts, config, 4).value();
        spec.layers.assign(4, {});
        for (size_t i = 0; i < 4; ++i) spec.layers[i].experts = layers[i];
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

TEST(ExpertsConfig, Qwen3Next) {
    const LayerExperts layers = read(kQwenExperts, Block().config, 8).value();
    for (const int64_t i : {0, 2, 3, 4, 6}) EXPECT_FALSE(layers[i]) << i;  // every second; not 3
    ASSERT_TRUE(layers[1] && layers[5] && layers[7]);
    EXPECT_EQ(layers[1]->n_experts, 7);
    EXPECT_EQ(layers[1]->n_used, 3);
    EXPECT_EQ(layers[1]->d_ff, 12);
    EXPECT_EQ(layers[1]->d_ff_shared, 28);
    EXPECT_TRUE(layers[1]->weighs_chosen);
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

}  // namespace
}  // namespace bifocal
