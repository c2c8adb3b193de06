// Full attention: every query sees every earlier token, up to a capacity fixed with the session.
#pragma once

#include "mixers/mixer.h"

namespace bifocal {

// Options: sink = none | learned, sink_logits = FILE (with learned).
Result<std::unique_ptr<Mixer>> make_full_attention(const MixerSpec& spec,
                                                   const LayerContext& context);

}  // namespace bifocal
