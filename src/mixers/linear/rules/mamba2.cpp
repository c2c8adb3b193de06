// Mamba-2 as Mamba-in-the-Llama puts it in a transformer's place: https://arxiv.org/abs/2405.21060,
// https://arxiv.org/abs/2408.15237. C = q, B = k, x = v.
#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_mamba2(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    if (!config.is_far) config.conv_width = options.integer("conv_width", 4, 2, 16);
    config.conv_bias = true;
    config.decay = Decay::softplus_rate;
    config.decay_projection = {.name = "dt_proj", .n_out = config.n_states};
    config.strength = Strength::softplus;
    config.strength_projection = config.decay_projection;
    config.has_skip = !config.is_far;
    fill_output(config, OutputNorm::rms_grouped, "norm", OutputGate::silu, {.name = "z_proj"});
    config.output_norm_eps = 1e-5;
    config.gates_before_norm = true;
}

}  // namespace bifocal::linear
