// Plain linear attention: Katharopoulos et al., https://arxiv.org/abs/2006.16236, eq. (9)-(12).
#include "mixers/linear/rules/rules.h"

namespace bifocal::linear {

void fill_linear_attention(LinearConfig& config, const LayerContext& layer, OptionReader& options) {
    config.has_backward = true;
    fill_retrofit(config, layer, options, "q");
    config.has_qk_norm = layer.qk_norm;
    config.has_rope = options.boolean("rope", true) && layer.rope.has_value();
    const std::string map =
        options.choice("feature_map", "elu_plus_one", {"elu_plus_one", "softmax", "identity"});
    config.feature_map = map == "softmax"    ? FeatureMap::softmax
                         : map == "identity" ? FeatureMap::identity
                                             : FeatureMap::elu_plus_one;
    const std::string normaliser = options.choice("normaliser", "sum", {"sum", "none"});
    options.require(normaliser == "none" || map != "identity", "normaliser",
                    "none with feature_map=identity, whose sums may be 0");
    config.recurrence.normaliser = normaliser == "sum" ? Normaliser::sum : Normaliser::none;
}

}  // namespace bifocal::linear
