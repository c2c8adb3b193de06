// Linear: y = x Wᵀ + b for every weight dtype. The weight is re-laid at load into panels of 16
// rows; its values stay as stored. Each output is summed block by block in one fixed order, so a
// row's result does not depend on how many rows are computed with it (prefill = decode, bit for
// bit), on the number of threads, or on the kernel family.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bifocal/error.h"
#include "core/cpu_features.h"
#include "core/tensor.h"
#include "core/view.h"
#include "ops/exec.h"

namespace bifocal::ops {

class Linear {
  public:
    // weight: [out, in]; bias: [out], any float dtype, or null. Errors name `name`.
    // `isa` is for tests; default: the kernel family chosen for this machine.
    static Result<Linear> make(std::string name, const Tensor& weight, const Tensor* bias,
                               Precision precision, std::optional<Isa> isa = std::nullopt);
    Linear();
    ~Linear();
    Linear(Linear&&) noexcept;
    Linear& operator=(Linear&&) noexcept;

    int64_t n_in() const;
    int64_t n_out() const;
    DType dtype() const;           // of the weight as stored in the file
    int64_t weight_bytes() const;  // read per pass
    const std::string& name() const;
    // Which kernel runs here and why, for `inspect`: "avx512_vnni 16-row q4_1 × int8 (cpu has
    // avx512_vnni)".
    std::string kernel() const;
    // Row `i` of the dequantised weight, as the embedding lookup needs it. out: [in]
    void dequantise_row(int64_t i, std::span<float> out) const;

    struct Impl;
    const Impl& impl() const { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

// One product of a call: y = x Wᵀ + b, or y += when `accumulate`.
struct LinearCall {
    const Linear* linear;
    View<float, 2> y;  // [T, out]; rows may be strided
    bool accumulate = false;
};

// Products that read the same x: it is quantised once and all run in one fork-join.
// A NaN or infinity in x makes NaN of what it touches.
// x: [T, in], dense rows (rows may be strided). At most 16 calls.
void linear_forward(View<const float, 2> x, std::span<const LinearCall> calls, Exec& exec);

// Scratch that linear_forward takes for `n_rows` rows of `n_in`.
size_t linear_workspace_bytes(int64_t n_rows, int64_t n_in);

}  // namespace bifocal::ops
