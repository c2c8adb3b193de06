// Gated DeltaNet, https://arxiv.org/abs/2412.06464. `form=qwen` is the layer of Qwen3-Next and
// Qwen3.5 with their weight names; `form=retrofit` keeps a teacher's q, k, v.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_gdn(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    const bool is_qwen =
        !config.is_far && options.choice("form", "retrofit", {"retrofit", "qwen"}) == "qwen";
    if (is_qwen) {
        constexpr int64_t kMost = 1 << 16;
        config.n_query = config.n_key = options.integer("key_heads", std::nullopt, 1, kMost);
        config.n_value = config.n_states = options.integer("value_heads", std::nullopt, 1, kMost);
        options.require(config.n_value % config.n_key == 0, "value_heads",
                        "a multiple of key_heads");
        config.tiles_values =
            options.choice("value_order", "grouped", {"grouped", "tiled"}) == "tiled";
        config.head_dim = config.recurrence.key_dim =
            options.integer("key_dim", std::nullopt, 1, kMost);
        config.recurrence.value_dim = options.integer("value_dim", std::nullopt, 1, kMost);
        config.is_fused = true;
        config.out_name = "out_proj";
    } else {
        fill_retrofit(config, layer, options, "q");
        config.has_qk_norm = options.boolean("qk_norm", false) && layer.qk_norm;
        config.has_rope = options.boolean("rope", false) && layer.rope.has_value();
    }
    if (!config.is_far) config.conv_width = options.integer("conv_width", is_qwen ? 4 : 0, 0, 16);
    options.require(config.conv_width != 1 && (config.conv_width > 0 || !is_qwen), "conv_width",
                    is_qwen ? "at least 2" : "0 or at least 2");
    if (config.conv_width == 0) config.qk_activation = config.v_activation = Activation::silu;
    config.has_l2_norm = true;
    config.recurrence.write = Write::delta;
    config.recurrence.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)));
    config.decay = Decay::softplus_rate;
    config.decay_projection = {.name = is_qwen ? "in_proj_a" : "a_proj", .n_out = config.n_states};
    config.strength = Strength::sigmoid;
    config.strength_factor = options.boolean("negative_eigenvalues", false) ? 2 : 1;
    config.strength_projection = {.name = is_qwen ? "in_proj_b" : "b_proj",
                                  .n_out = config.n_states};
    fill_output(config, OutputNorm::rms_norm, is_qwen ? "norm" : "o_norm", OutputGate::silu,
                {.name = is_qwen ? "in_proj_z" : "g_proj"});
    if (!config.is_far)
        config.output_norm_eps = options.number("norm_eps", is_qwen ? 1e-6 : 1e-5, 1e-12, 1e-2);
}

}  // namespace bifocal::linear
