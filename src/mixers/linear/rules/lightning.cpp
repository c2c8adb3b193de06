// Lightning attention: a constant decay for each head, https://arxiv.org/abs/2401.04658;
// MiniMax-01, https://arxiv.org/abs/2501.08313. Public code has three formulas for the decay and
// two for the scale; each is a setting.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_lightning(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    // minimax: 2^(-8(h+1)/H) (1 - layer/(layers-1+1e-5) + 1e-5); halo: without the layer's factor;
    // fla: (8/H)(1 - layer/layers) h.
    const std::string slopes = options.choice("slopes", "halo", {"halo", "minimax", "fla"});
    const auto model_layers = layer.n_layers > 0 ? std::optional(layer.n_layers) : std::nullopt;
    const int64_t n_layers =
        slopes == "halo" ? 0 : options.integer("n_layers", model_layers, 1, 1 << 20);
    const auto H = static_cast<double>(config.n_states), at = static_cast<double>(layer.layer);
    const auto L = static_cast<double>(n_layers);
    for (int64_t h = 0; h < config.n_states; ++h) {
        double rate = std::exp2(-8 * static_cast<double>(h + 1) / H);
        if (slopes == "minimax") rate *= 1 - at / (L - 1 + 1e-5) + 1e-5;
        if (slopes == "fla") rate = 8 / H * (1 - at / L) * static_cast<double>(h);
        config.log_decays.push_back(-rate);
    }
    config.decay = Decay::constant;
    config.has_rope = options.boolean("rope", slopes == "halo") && layer.rope.has_value();
    config.has_qk_norm = layer.qk_norm && slopes == "halo";
    if (!config.is_far && options.choice("activation", "silu", {"silu", "none"}) == "silu")
        config.qk_activation = config.v_activation = Activation::silu;
    const bool scales = options.choice("scale", slopes == "halo" ? "head_dim" : "one",
                                       {"head_dim", "one"}) == "head_dim";
    config.recurrence.scale =
        scales ? static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim))) : 1.0f;
    // As MiniMax stores it: a head of its own keys and values for each query head, all in one
    // tensor.
    config.packs_heads = !config.is_far && options.boolean("packed", false);
    if (config.packs_heads) {
        config.prefix = config.qkv_prefix = "self_attn.";
        config.out_name = "out_proj";
        config.n_key = config.n_value = config.n_query;
        config.has_qkv_bias = false;
    }
    fill_output(config, OutputNorm::rms_all, "norm", OutputGate::sigmoid, {.name = "output_gate"});
    if (!config.is_far) config.output_norm_eps = options.number("norm_eps", 1e-6, 1e-12, 1e-2);
}

}  // namespace bifocal::linear
