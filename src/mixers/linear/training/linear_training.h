// The training form of LinearMixer.
#pragma once

#include "mixers/linear/config.h"

namespace bifocal::linear {

// Whether the rule says so and the recurrence has a backward.
bool is_trainable(const LinearConfig& config, const LayerContext& context);
TrainingForms linear_training(const LinearConfig& config, const LayerContext& context);

}  // namespace bifocal::linear
