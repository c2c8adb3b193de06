// Sliding window: a query sees the last `window` tokens, itself included, and the first
// `sink_tokens` of the sequence for ever. Fixed memory. Equations in README.md.
#pragma once

#include "mixers/mixer.h"

namespace bifocal {

// Options: window (required), sink_tokens = 0, sink_positions = absolute | cache,
// sink = none | learned, sink_logits = FILE (with learned), rewind = 0: further tokens that are
// kept so that as many can be taken back at any time.
Result<std::unique_ptr<Mixer>> make_sliding_window(const MixerSpec& spec,
                                                   const LayerContext& context);

}  // namespace bifocal
