// The training form of AttentionMixer.
#pragma once

#include "mixers/shared/attention_core.h"

namespace bifocal {

TrainingForms attention_training(const AttentionConfig& config, const LayerContext& context);

}  // namespace bifocal
