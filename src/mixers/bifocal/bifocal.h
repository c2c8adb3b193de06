// The mixer `bifocal`: a sliding window sees near tokens sharply, a linear state of fixed size sees
// all of them; a gate of each query head mixes the two. README.md has the equations.
#pragma once

#include "mixers/mixer.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_bifocal(const MixerSpec& spec, const LayerContext& context);

}  // namespace bifocal
