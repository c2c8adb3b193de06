// RWKV-6, https://arxiv.org/abs/2404.05892, and the form that RADLADS gives it to take the place of
// attention, https://arxiv.org/abs/2505.03005 appendix A.
#include <cmath>
#include <limits>

#include "mixers/linear/rules/rules.h"
#include "mixers/shared/weight_init.h"

namespace bifocal::linear {
namespace {

// Channels of all heads from the longest memory to the shortest, more evenly in lower layers.
WeightInit decay_biases(const LayerContext& layer) {
    const double depth = layer.n_layers > 1 ? static_cast<double>(layer.layer) /
                                                  static_cast<double>(layer.n_layers - 1)
                                            : 0;
    return {.fill = [=](std::span<float> values, Rng&) {
        const double last = std::max<double>(1, static_cast<double>(values.size()) - 1);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(
                -6 + 5 * std::pow(static_cast<double>(i) / last, 0.7 + 1.3 * depth));
    }};
}

// What both have.
void fill_common(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    fill_retrofit(config, layer, options, "q");
    config.has_qk_norm = layer.qk_norm;
    const bool is_wide = layer.d_model >= 4096;
    // Beside a window q, k and v are the window's, which are not shifted.
    if (!config.is_far)
        config.shift_rank = options.integer("shift_rank", is_wide ? 64 : 32, 1, 1 << 16);
    config.recurrence.decays_by_channel = true;
    config.decay = Decay::exponential;
    config.decay_projection = {
        .name = "decay",
        .n_out = config.n_states * config.key_dim(),
        .has_bias = true,
        .rank = options.integer("decay_rank", is_wide ? 128 : 64, 1, 1 << 16),
        .has_tanh = true,
        .starts_at_zero = true,
        .bias_init = decay_biases(layer)};
}

}  // namespace

void fill_rwkv6(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    fill_common(config, layer, options);
    config.recurrence.has_bonus = true;
    config.decay_bound = -std::numeric_limits<double>::infinity();
    fill_output(config, OutputNorm::layer_norm_biased, "g_norm", OutputGate::silu,
                {.name = "g_proj"});
    if (!config.is_far) config.output_norm_eps = options.number("norm_eps", 1e-5, 1e-12, 1e-2);
}

void fill_rad_rwkv6(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    fill_common(config, layer, options);
    config.has_rope = options.boolean("rope", false) && layer.rope.has_value();
    config.decay_bound = -5;
    config.balances_keys = config.expands_keys = true;
    config.recurrence.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
    // Half open at first.
    fill_output(config, OutputNorm::none, "", OutputGate::sigmoid,
                {.name = "g_proj", .starts_at_zero = true});
}

}  // namespace bifocal::linear
