// How much softmax mass each head of an attention layer gives to tokens that a window drops, on a
// text: what a learned sink has to stand in for.
#pragma once

#include <vector>

#include "mixers/mixer.h"

namespace bifocal {

// s_h = mean over t of log( Σ_j e^{z_tj} ) with j over the tokens in [sink_tokens, t - window], of
// these at most the first n_first, z_tj the scaled score; t over the positions that have such a
// token. [H]
// x: [T, M] residual stream before the layer; weights: those of a softmax layer.
// REQUIRES: T > window + sink_tokens.
Result<std::vector<float>> lost_mass(const LayerContext& context, const WeightMap& weights,
                                     View<const float, 2> x, int64_t window, int64_t sink_tokens,
                                     int64_t n_first, ThreadPool& pool);

}  // namespace bifocal
