// Gated linear attention, https://arxiv.org/abs/2312.06635.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_gla(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    config.has_qk_norm = layer.qk_norm;
    config.has_rope = options.boolean("rope", false) && layer.rope.has_value();
    config.recurrence.decays_by_channel = true;
    config.recurrence.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
    config.decay = Decay::log_sigmoid;
    config.decay_divisor = options.number("gate_divisor", 16, 1e-3, 1e6);
    config.decay_projection = {.name = "gk_proj",
                               .n_out = config.n_states * config.key_dim(),
                               .has_bias = true,
                               .rank = options.integer("gate_rank", 16, 1, 1 << 16)};
    fill_output(config, OutputNorm::rms_norm, "g_norm", OutputGate::silu, {.name = "g_proj"});
    config.output_norm_eps = 1e-5;
}

}  // namespace bifocal::linear
