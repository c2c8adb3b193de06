// Weights re-laid into panels of 16 rows (kernels/kernels.h). Values stay as stored.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/tensor.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {

// The packing of a quantised dtype; none for plain types.
std::optional<Packing> packing_of(DType dtype);

inline int64_t panel_count(int64_t n_rows) {
    return (n_rows + kPanelRows - 1) / kPanelRows;
}

// Bytes of one panel of `n_in` columns: quantised, or plain of f32, f16, bf16.
int64_t panel_bytes(DType dtype, int64_t n_in);

// Writes the panel that starts at row `row`; rows past the end get zeros. weight: [out, in]
// REQUIRES: n_in fills whole blocks; out.size() == panel_bytes().
void pack_panel(const Tensor& weight, int64_t row, std::span<std::byte> out);

}  // namespace bifocal::ops
