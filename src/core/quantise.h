// Floats as stored blocks: for tests and tools that make weights. Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1
// give the bytes of ggml's reference encoders; the other types are valid and close, but choose
// their scales more simply.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace bifocal {

// Encodes values.size() elements into `row` (dtype_bytes() bytes of it). Values are finite.
// REQUIRES: is_real(dtype); values.size() is a multiple of the block size.
void quantise_row(DType dtype, std::span<const float> values, std::byte* row);

std::vector<std::byte> quantise(DType dtype, std::span<const float> values);

}  // namespace bifocal
