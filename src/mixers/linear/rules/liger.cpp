// The linear branch of Liger-GLA, https://arxiv.org/abs/2503.01496: no parameters of its own.
// Public code's pooling of the keys is the identity for grouped-query layers.
#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_liger(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    config.feature_map = FeatureMap::softmax;
    config.recurrence.decays_by_channel = true;
    config.decay = Decay::log_sigmoid;
    config.decay_divisor = options.number("gate_divisor", 16, 1e-3, 1e6);
    config.decays_from_keys = true;
}

}  // namespace bifocal::linear
