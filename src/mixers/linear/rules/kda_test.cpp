// The forms of rule kda: their options and the names of their weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "mixers/contract/contract_case.h"
#include "mixers/mixer.h"

namespace bifocal {
namespace {

using ::testing::HasSubstr;
using Shapes = std::map<std::string, std::vector<int64_t>>;

Result<std::unique_ptr<Mixer>> make(const std::string& text) {
    auto spec = parse_mixer_spec(text);
    if (!spec.ok()) return spec.error();
    LayerContext context = small_layer();
    context.qkv_bias = true;
    return make_mixer(*spec, context);
}

// Of the mixer, every option explicit.
std::string explicit_spec(const std::string& text) {
    const auto mixer = make(text);
    return mixer.ok() ? (*mixer)->spec().to_string() : mixer.error().message();
}

Shapes shapes_of(const std::string& text) {
    const auto mixer = make(text);
    if (!mixer.ok()) return {{mixer.error().message(), {}}};
    Shapes shapes;
    for (const WeightSpec& weight : (*mixer)->weights()) shapes[weight.name] = weight.shape;
    return shapes;
}

TEST(KdaForms, EveryOptionIsExplicit) {
    EXPECT_EQ(explicit_spec("linear:rule=kda"),
              "linear:conv_width=4,decay=softplus,form=retrofit,gate_bias=true,gate_rank=10,"
              "rule=kda,state_heads=q");
    EXPECT_EQ(explicit_spec("linear:rule=kda,form=kimi,heads=3,head_dim=5"),
              "linear:conv_width=4,form=kimi,head_dim=5,heads=3,norm_eps=1e-05,rule=kda");
    // Beside a window there is no gate of the output, and no other form.
    EXPECT_THAT(explicit_spec("bifocal:window=9,far=kda"),
                AllOf(HasSubstr("gate_rank=10"), Not(HasSubstr("form")), Not(HasSubstr("bias"))));
}

// H 3, D 5, W 4, M 22, whatever heads and biases the model's other layers have.
TEST(KdaForms, KimiHasTheNamesOfItsCheckpoints) {
    const Shapes expected{
        {"input_layernorm.weight", {22}},
        {"self_attn.q_proj.weight", {15, 22}},
        {"self_attn.k_proj.weight", {15, 22}},
        {"self_attn.v_proj.weight", {15, 22}},
        {"self_attn.q_conv1d.weight", {15, 1, 4}},
        {"self_attn.k_conv1d.weight", {15, 1, 4}},
        {"self_attn.v_conv1d.weight", {15, 1, 4}},
        {"self_attn.A_log", {3}},
        {"self_attn.dt_bias", {15}},
        {"self_attn.f_a_proj.weight", {5, 22}},
        {"self_attn.f_b_proj.weight", {15, 5}},
        {"self_attn.b_proj.weight", {3, 22}},
        {"self_attn.g_a_proj.weight", {5, 22}},
        {"self_attn.g_b_proj.weight", {15, 5}},
        {"self_attn.o_norm.weight", {5}},
        {"self_attn.o_proj.weight", {22, 15}},
    };
    EXPECT_EQ(shapes_of("linear:rule=kda,form=kimi,heads=3,head_dim=5"), expected);
}

TEST(KdaForms, TheBiasOfTheGateIsAnOption) {
    Shapes with = shapes_of("linear:rule=kda,gate_bias=true");
    EXPECT_EQ(with, shapes_of("linear:rule=kda"));
    EXPECT_EQ(with.extract("linear_attn.g_proj.1.bias").mapped(), std::vector<int64_t>{60});
    EXPECT_EQ(with, shapes_of("linear:rule=kda,gate_bias=false"));
}

TEST(KdaForms, BadOptionsAreNamed) {
    const std::string kimi = "linear:rule=kda,form=kimi,heads=3,head_dim=5";
    const std::pair<std::string, const char*> cases[] = {
        {"linear:rule=kda,form=qwen", "option 'form'"},
        {"linear:rule=kda,form=kimi,head_dim=5", "option 'heads'"},
        {"linear:rule=kda,form=kimi,heads=3", "option 'head_dim'"},
        {"linear:rule=kda,form=kimi,heads=0,head_dim=5", "option 'heads'"},
        {"linear:rule=kda,form=kimi,heads=65537,head_dim=5", "option 'heads'"},
        {"linear:rule=kda,form=kimi,heads=3,head_dim=65536", "heads too wide"},
        {kimi + ",conv_width=0", "option 'conv_width'"},
        {kimi + ",conv_width=1", "option 'conv_width'"},
        {kimi + ",conv_width=17", "option 'conv_width'"},
        {kimi + ",norm_eps=0", "option 'norm_eps'"},
        {kimi + ",decay=softplus", "unknown option 'decay'"},
        {kimi + ",gate_rank=5", "unknown option 'gate_rank'"},
        {kimi + ",gate_bias=false", "unknown option 'gate_bias'"},
        {kimi + ",state_heads=kv", "unknown option 'state_heads'"},
        {"linear:rule=kda,heads=3", "unknown option 'heads'"},
        {"linear:rule=kda,norm_eps=1e-5", "unknown option 'norm_eps'"},
        {"linear:rule=kda,gate_bias=1", "option 'gate_bias'"},
        {"linear:rule=kda,conv_width=1", "option 'conv_width'"},
        {"bifocal:window=9,far=kda,form=kimi", "unknown option 'form'"},
        {"bifocal:window=9,far=kda,gate_bias=false", "unknown option 'gate_bias'"},
    };
    for (const auto& [text, words] : cases) {
        const auto mixer = make(text);
        ASSERT_FALSE(mixer.ok()) << text;
        EXPECT_THAT(mixer.error().message(), HasSubstr(words)) << text;
        EXPECT_EQ(mixer.error().kind, ErrorKind::usage) << text;
    }
}

}  // namespace
}  // namespace bifocal
