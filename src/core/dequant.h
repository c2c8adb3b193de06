// Stored weights as floats. A block never straddles rows, so a row is decoded on its own. The
// result has the same bits on every machine (contraction to FMA is off in our flags) and equals the
// block formats of ggml, https://github.com/ggml-org/ggml, bit by bit.
#pragma once

#include <cstddef>
#include <span>

#include "core/dtype.h"

namespace bifocal {

// True for the types whose elements are real numbers: all but the integers.
inline bool is_real(DType dtype) {
    return dtype <= DType::f64 || is_quantised(dtype);
}

// Decodes out.size() elements. `row` may be unaligned.
// REQUIRES: is_real(dtype); out.size() is a multiple of the block size.
void dequantise_row(DType dtype, const std::byte* row, std::span<float> out);

}  // namespace bifocal
