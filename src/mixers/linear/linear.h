// The mixer `linear`: one system of the linear family, chosen by the option `rule`.
#pragma once

#include "mixers/mixer.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_linear(const MixerSpec& spec, const LayerContext& context);

}  // namespace bifocal
