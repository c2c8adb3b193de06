// The training form of BifocalMixer.
#pragma once

#include "mixers/linear/config.h"
#include "mixers/shared/attention_core.h"

namespace bifocal {

// gate: name of the projection that mixes; empty: half of each.
TrainingForms bifocal_training(const AttentionConfig& near, const linear::LinearConfig& far,
                               const std::string& gate, const LayerContext& context);

}  // namespace bifocal
