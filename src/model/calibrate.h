// Learned sinks of a student from a text: for each head the softmax mass that its teacher gives to
// what the student's window has dropped, or to the first tokens of that.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "model/decoder.h"

namespace bifocal {

// What one layer's sinks stand in for.
struct SinkTask {
    int64_t layer = 0;
    int64_t window = 0, sink_tokens = 0;
    WeightMap weights;  // of the teacher's softmax layer
};

// At most this many tokens of a text count, or four windows.
inline constexpr int64_t kCalibrationTokens = 4096;

// Runs the teacher once over `tokens`; one [H] for each task. Of what a window has dropped the
// first n_first tokens count: pretrained heads park weight on the first one, and that is what a
// sink stands in for. What they give to later ones has content, and a sink of that size only takes
// it from the rest: measured in bench/NOTES.md. `at_layer` hears how far it is.
Result<std::vector<std::vector<float>>> calibrate_sinks(
    const Decoder& teacher, std::span<const SinkTask> tasks, std::span<const int32_t> tokens,
    int64_t n_first, const std::function<void(int64_t done, int64_t total)>& at_layer);

}  // namespace bifocal
