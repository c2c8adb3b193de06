// From a number of bytes to a layout: the largest window whose states fit. The layouts themselves
// are asked what they take.
#pragma once

#include <string>

#include "bifocal/error.h"
#include "mixers/spec.h"
#include "mixers/state.h"
#include "model/decoder.h"
#include "model/model_spec.h"

namespace bifocal {

// Layers without weights, laid out by layout_with(): enough to plan with. An error when a layer
// refuses it.
Result<Decoder> decoder_without_weights(const ModelSpec& model, const MixerSpec& mixer);

// State bytes of one sequence in the same layout; an error when a layer refuses it.
Result<int64_t> layout_bytes(const ModelSpec& model, const MixerSpec& mixer,
                             const StateOptions& options);

// `mixer` with the smallest option "window" it takes, which is at most its sinks and a token.
Result<MixerSpec> smallest_window(const ModelSpec& model, MixerSpec mixer,
                                  const StateOptions& options);

// `mixer` with the largest option "window" that needs at most `budget` bytes per sequence, and at
// most `max_window`. A budget that cannot hold the smallest window is an error that says what can.
Result<MixerSpec> fit_window(const ModelSpec& model, MixerSpec mixer, const StateOptions& options,
                             int64_t budget, int64_t max_window);

// "72MiB", "1.5k", "4096": bytes; k, M, G are powers of 1000, Ki, Mi, Gi of 1024, B may follow.
Result<int64_t> parse_bytes(const std::string& text);

}  // namespace bifocal
