// mLSTM: xLSTM, https://arxiv.org/abs/2405.04517, and xLSTM-7B, https://arxiv.org/abs/2503.13427.
#include <cmath>

#include "mixers/linear/rules/rules.h"
#include "mixers/shared/weight_init.h"

namespace bifocal::linear {

void fill_mlstm(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, config.is_far ? "kv" : "q");
    config.has_qk_norm = layer.qk_norm;
    config.has_rope = options.boolean("rope", config.is_far) && layer.rope.has_value();
    const bool is_exp = options.choice("input_gate", "exp", {"exp", "sigmoid"}) == "exp";
    config.recurrence.write = is_exp ? Write::exponential : Write::plain;
    const std::string map =
        options.choice("feature_map", config.is_far ? "learned_softmax" : "identity",
                       {"identity", "softmax", "learned_softmax"});
    if (map == "softmax") config.feature_map = FeatureMap::softmax;
    if (map == "learned_softmax") config.feature_map = FeatureMap::learned_softmax;
    config.expands_keys = map == "learned_softmax" && config.n_states == config.n_query;
    const std::string normaliser = options.choice(
        "normaliser", map == "identity" ? "max_abs" : "sum", {"max_abs", "sum", "none"});
    options.require(normaliser != "sum" || map != "identity", "normaliser",
                    "max_abs or none with feature_map=identity, whose sums may be 0");
    config.recurrence.normaliser = normaliser == "max_abs" ? Normaliser::max_abs
                                   : normaliser == "sum"   ? Normaliser::sum
                                                           : Normaliser::none;
    config.recurrence.eps = 1e-6f;
    config.recurrence.scale =
        normaliser == "sum"
            ? 1.0f
            : static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
    config.soft_cap = options.number("soft_cap", 0, 0, 1e6);
    config.decay = Decay::log_sigmoid;
    // Beside a window, half-lives from about its length to that of long texts; alone, as in xLSTM.
    config.decay_projection = {
        .name = "forget_gate",
        .n_out = config.n_states,
        .has_bias = true,
        .starts_at_zero = true,
        .bias_init = config.is_far ? init::forget_biases(448, 8192) : init::steps(3, 6)};
    config.strength = is_exp ? Strength::raw : Strength::sigmoid;
    config.strength_projection = {
        .name = "input_gate", .n_out = config.n_states, .has_bias = true, .starts_at_zero = true};
    if (config.is_far) return;
    const bool has_norm = options.choice("norm", "layer_norm", {"layer_norm", "none"}) != "none";
    const bool has_gate = options.choice("gate", "sigmoid", {"sigmoid", "none"}) != "none";
    fill_output(config, has_norm ? OutputNorm::layer_norm : OutputNorm::none, "norm",
                has_gate ? OutputGate::sigmoid : OutputGate::none, {.name = "g_proj"});
    config.output_norm_eps = 1e-6;
}

}  // namespace bifocal::linear
