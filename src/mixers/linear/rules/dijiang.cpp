// DiJiang: features of a weighed cosine transform, a constant decay for each head,
// https://arxiv.org/abs/2403.19928. The public code's learnable position tables overflow; the
// relative decay they start as is what runs here.
#include <cmath>

#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_dijiang(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    config.has_qk_norm = layer.qk_norm;
    config.has_rope = options.boolean("rope", true) && layer.rope.has_value();
    config.feature_map = FeatureMap::dct_softmax;
    config.decay = Decay::constant;
    const double first = std::log(1.0 / 32), last = std::log(1.0 / 512);
    for (int64_t h = 0; h < config.n_states; ++h) {
        const double share = config.n_states > 1
                                 ? static_cast<double>(h) / static_cast<double>(config.n_states - 1)
                                 : 0;
        config.log_decays.push_back(std::log1p(-std::exp(first + share * (last - first))));
    }
    fill_output(config, OutputNorm::group_norm, "norm", OutputGate::silu, {.name = "g_proj"});
    config.output_norm_eps = 1e-5;
}

}  // namespace bifocal::linear
