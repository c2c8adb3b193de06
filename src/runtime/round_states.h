// What a state would forget in a shorter format: rounds the numbers of linear states to BF16 where
// they lie, to measure what keeping them in FP32 is worth.
#pragma once

#include <cstddef>

#include "model/decoder.h"

namespace bifocal {

// Bytes of a sequence that round_states_to_bf16() changes: every f32 field of every layer but the
// keys and values of windows. 0: the layout has no linear states.
size_t linear_state_bytes(const StatePlan& plan);

// `states`: a sequence's whole state, laid out by `plan`.
void round_states_to_bf16(const StatePlan& plan, std::byte* states);

}  // namespace bifocal
