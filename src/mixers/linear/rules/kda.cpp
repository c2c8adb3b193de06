// Kimi Delta Attention: the delta rule with a decay for each channel,
// https://arxiv.org/abs/2510.26692.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_kda(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    if (!config.is_far) config.conv_width = options.integer("conv_width", 4, 0, 16);
    options.require(config.conv_width != 1, "conv_width", "0 or at least 2");
    if (config.conv_width == 0) config.qk_activation = config.v_activation = Activation::silu;
    config.has_l2_norm = true;
    config.recurrence.write = Write::delta;
    config.recurrence.decays_by_channel = true;
    config.recurrence.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
    const bool is_bounded =
        options.choice("decay", "softplus", {"softplus", "bounded"}) == "bounded";
    config.decay = is_bounded ? Decay::bounded_rate : Decay::softplus_rate;
    if (is_bounded) config.decay_bound = options.number("decay_bound", -5, -5, 0);
    const int64_t rank = options.integer("gate_rank", layer.head_dim, 1, 1 << 16);
    config.decay_projection = {
        .name = "f_proj", .n_out = config.n_states * config.key_dim(), .rank = rank};
    config.strength = Strength::sigmoid;
    config.strength_projection = {.name = "b_proj", .n_out = config.n_states};
    fill_output(config, OutputNorm::rms_norm, "o_norm", OutputGate::sigmoid,
                {.name = "g_proj", .has_bias = true, .rank = rank});
    config.output_norm_eps = 1e-5;
}

}  // namespace bifocal::linear
