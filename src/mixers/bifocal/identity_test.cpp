// What a gate that is shut or wide open leaves over, bit by bit.
#include <gtest/gtest.h>

#include <cmath>

#include "mixers/contract/subject.h"

namespace bifocal {
namespace {

constexpr int64_t kWindow = 9, kTokens = 61;

ContractCase case_of(MixerSpec spec) {
    ContractCase c{.name = "identity", .spec = std::move(spec), .context = small_layer()};
    c.n_tokens = kTokens;
    return c;
}

WeightMap with_gate(WeightMap weights, float bias) {
    Tensor& w = weights.at("self_attn.mix_gate.weight");
    w = make_tensor_f32(w.shape, std::vector<float>(static_cast<size_t>(w.elems()), 0.0f));
    Tensor& b = weights.at("self_attn.mix_gate.bias");
    b = make_tensor_f32(b.shape, std::vector<float>(static_cast<size_t>(b.elems()), bias));
    return weights;
}

std::vector<float> run(const ContractCase& c, const WeightMap& weights, int64_t chunk) {
    const contract::Subject subject(c, weights);
    return subject.run(subject.rows(), chunk);
}

class GateIdentity : public ::testing::TestWithParam<const char*> {};

TEST_P(GateIdentity, ShutItIsTheWindowBitByBit) {
    const ContractCase both =
        case_of({"bifocal", {{"window", kWindow}, {"far", GetParam()}, {"sink", "learned"}}});
    const ContractCase window =
        case_of({"sliding_window", {{"window", kWindow}, {"sink", "learned"}}});
    const WeightMap weights = contract::Subject(both).weights();
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, kTokens}) {
        for (const float shut : {-1e9f, -INFINITY})
            EXPECT_TRUE(contract::same_bits(run(both, with_gate(weights, shut), chunk),
                                            run(window, weights, chunk), both.context.d_model));
    }
}

// Nothing of the window is left: another one gives the same bits.
TEST_P(GateIdentity, WideOpenItIsTheStateBitByBit) {
    const ContractCase both = case_of({"bifocal", {{"window", kWindow}, {"far", GetParam()}}});
    const WeightMap weights = contract::Subject(both).weights();
    const std::vector<float> open = run(both, with_gate(weights, 1e9f), 7);
    const ContractCase other_window =
        case_of({"bifocal", {{"window", 2 * kWindow}, {"far", GetParam()}}});
    EXPECT_TRUE(contract::same_bits(open, run(other_window, with_gate(weights, 1e9f), 7),
                                    both.context.d_model));
    EXPECT_FALSE(
        contract::same_bits(open, run(both, with_gate(weights, 0), 7), both.context.d_model));
}

INSTANTIATE_TEST_SUITE_P(Far, GateIdentity,
                         ::testing::Values("mlstm", "gla", "gdn", "kda", "liger",
                                           "linear_attention", "lightning", "mamba2", "dijiang"));

TEST(BifocalIdentity, WideOpenTheMlstmIsTheLinearMixerOfItsSettings) {
    const ContractCase both = case_of({"bifocal", {{"window", kWindow}, {"far", "mlstm"}}});
    ContractCase alone = case_of({"linear",
                                  {{"rule", "mlstm"},
                                   {"state_heads", "kv"},
                                   {"feature_map", "learned_softmax"},
                                   {"rope", true},
                                   {"norm", "none"},
                                   {"gate", "none"}}});
    const WeightMap weights = contract::Subject(both).weights();
    WeightMap renamed;
    for (const auto& [name, tensor] : weights) {
        std::string to = name;
        for (const char* prefix : {"self_attn.far.", "self_attn."})
            if (to.starts_with(prefix)) to = "linear_attn." + to.substr(std::strlen(prefix));
        renamed.emplace(to, tensor);
    }
    EXPECT_TRUE(contract::same_bits(run(both, with_gate(weights, 1e9f), 16),
                                    run(alone, renamed, 16), both.context.d_model));
}

}  // namespace
}  // namespace bifocal
