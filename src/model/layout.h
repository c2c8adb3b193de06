// Which mixer each layer of a model gets when its layout is replaced. A checkpoint's own linear
// layers have no weights for softmax attention, so a mixer that is meant for every layer leaves
// them as they are; only a layout that speaks of each layer reaches them.
#pragma once

#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "model/model_spec.h"

namespace bifocal {

// `mixer` in every layer that is not natively linear.
std::vector<MixerSpec> layout_with(const ModelSpec& model, const MixerSpec& mixer);

// `attention`: a SPEC, for the same layers, or "@layout.json", which says every layer.
Result<std::vector<MixerSpec>> layout_from(const ModelSpec& model, std::string_view attention);

}  // namespace bifocal
