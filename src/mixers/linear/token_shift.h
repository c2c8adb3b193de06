// The token shift of RWKV-6, https://arxiv.org/abs/2404.05892: every projection of a layer sees its
// own mix of a token and the one before it, which the token itself chooses (README.md, eq. 23-25).
#pragma once

#include <array>
#include <vector>

#include "mixers/linear/config.h"
#include "mixers/linear/steps.h"
#include "ops/linear.h"

namespace bifocal::linear {

// What there is a mix for, in the order of the parameters.
enum class ShiftFor : uint8_t { q, decay, k, v, gate };
inline constexpr std::array<std::string_view, 5> kShiftNames{"q", "decay", "k", "v", "gate"};
inline constexpr int64_t kShifts = std::ssize(kShiftNames);

// x + (before - x) ∘ mix, in place of `mix`; all [M].
template <class R>
void shift_row(const R* x, const R* before, int64_t n, R* mix) {
    for (int64_t i = 0; i < n; ++i) mix[i] = x[i] + (before[i] - x[i]) * mix[i];
}

// The five inputs of N tokens, [N, M] each.
struct ShiftedRows {
    std::array<View<float, 2>, kShifts> rows;
    View<float, 2> of(ShiftFor which) const { return rows[static_cast<size_t>(which)]; }
};

class TokenShift {
  public:
    static void add_weights(const LinearConfig& config, int64_t d_model,
                            std::vector<WeightSpec>& list);
    Status bind(const LinearConfig& config, const LayerContext& context, const WeightMap& weights);
    // The last normed row.
    static void add_state(StateLayout& layout, int64_t d_model);

    ShiftedRows take_rows(int64_t n_rows, Exec& exec) const;
    size_t row_bytes(int64_t n_rows) const;
    size_t run_bytes(int64_t n_rows) const;
    // normed: [B * T, M].
    void run(const Params<float>& params, View<const float, 2> normed, const Chunk& chunk,
             const ShiftedRows& out, Exec& exec) const;

    std::vector<const ops::Linear*> linears() const;

  private:
    int64_t d_model_ = 0, rank_ = 0;
    ops::Linear down_;                     // [5 · rank, M]
    std::array<ops::Linear, kShifts> up_;  // [M, rank]
};

}  // namespace bifocal::linear
