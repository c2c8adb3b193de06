// Kimi Delta Attention: the delta rule with a decay for each channel,
// https://arxiv.org/abs/2510.26692. `form=kimi` is the layer of Kimi-Linear with its weight names;
// `form=retrofit` keeps a teacher's q, k, v.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {
namespace {

// What decays and what gates the output, through two factors each; still without their widths.
struct Gates {
    Projection decay, output;
};

Gates fill_retrofit_form(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    fill_retrofit(config, layer, options, "q");
    if (!config.is_far) config.conv_width = options.integer("conv_width", 4, 0, 16);
    options.require(config.conv_width != 1, "conv_width", "0 or at least 2");
    if (config.conv_width == 0) config.qk_activation = config.v_activation = Activation::silu;
    const bool is_bounded =
        options.choice("decay", "softplus", {"softplus", "bounded"}) == "bounded";
    config.decay = is_bounded ? Decay::bounded_rate : Decay::softplus_rate;
    if (is_bounded) config.decay_bound = options.number("decay_bound", -5, -5, 0);
    const int64_t rank = options.integer("gate_rank", layer.head_dim, 1, 1 << 16);
    const bool has_bias = !config.is_far && options.boolean("gate_bias", true);
    config.output_norm_eps = 1e-5;
    return {{.name = "f_proj", .rank = rank},
            {.name = "g_proj", .has_bias = has_bias, .rank = rank}};
}

Gates fill_kimi_form(LinearConfig& config, OptionReader& options) {
    constexpr int64_t kMost = 1 << 16;
    config.n_query = config.n_key = config.n_value = config.n_states =
        options.integer("heads", std::nullopt, 1, kMost);
    config.head_dim = config.recurrence.key_dim = config.recurrence.value_dim =
        options.integer("head_dim", std::nullopt, 1, kMost);
    config.prefix = config.qkv_prefix = "self_attn.";
    config.conv_width = options.integer("conv_width", 4, 2, 16);
    config.decay = Decay::softplus_rate;
    config.output_norm_eps = options.number("norm_eps", 1e-5, 1e-12, 1e-2);
    const auto factors = [&](const char* name, const char* first, const char* last) {
        return Projection{
            .name = name, .rank = config.head_dim, .first_factor = first, .last_factor = last};
    };
    return {factors("f_proj", "f_a_proj", "f_b_proj"), factors("g_proj", "g_a_proj", "g_b_proj")};
}

}  // namespace

void fill_kda(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    const bool is_kimi =
        !config.is_far && options.choice("form", "retrofit", {"retrofit", "kimi"}) == "kimi";
    const Gates gates =
        is_kimi ? fill_kimi_form(config, options) : fill_retrofit_form(config, layer, options);
    config.has_l2_norm = true;
    config.recurrence.write = Write::delta;
    config.recurrence.decays_by_channel = true;
    config.recurrence.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
    config.decay_projection = gates.decay;
    config.decay_projection.n_out = config.n_states * config.key_dim();
    config.strength = Strength::sigmoid;
    config.strength_projection = {.name = "b_proj", .n_out = config.n_states};
    fill_output(config, OutputNorm::rms_norm, "o_norm", OutputGate::sigmoid, gates.output);
}

}  // namespace bifocal::linear
