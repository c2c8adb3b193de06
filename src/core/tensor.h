// Tensor: a typed, shaped, read-only run of bytes in a model file or in memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/dtype.h"

namespace bifocal {

struct Tensor {
    DType dtype = DType::f32;
    std::vector<int64_t> shape;         // outermost first; a Linear's weight is [out, in]
    std::span<const std::byte> bytes;   // row-major; may be unaligned (safetensors)
    std::shared_ptr<const void> owner;  // keeps `bytes` alive: the mapped file or a buffer

    int64_t elems() const;
    // Bytes of one index of the outermost dimension.
    int64_t row_bytes() const;
    // Rows [begin, end) of the outermost dimension; shares the bytes.
    Tensor rows(int64_t begin, int64_t end) const;
    // Rows [begin, end) of each of `n_groups` equal stretches of rows, one after the other; a copy.
    Tensor rows_of_groups(int64_t n_groups, int64_t begin, int64_t end) const;
};

// A tensor with memory of its own (64-byte aligned, zeroed); *data points at its writable bytes.
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::byte** data);
Tensor make_tensor_f32(std::vector<int64_t> shape, std::span<const float> values);

}  // namespace bifocal
