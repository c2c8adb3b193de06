// The kind "lolcats": a window and a linear state of what left it, under one divisor (README.md).
#pragma once

#include <memory>

#include "mixers/mixer.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_lolcats(const MixerSpec& spec, const LayerContext& context);

}  // namespace bifocal
