// LinearBranch: what stands between the projected q, k, v of a layer and its output: gates, short
// convolutions, features, the recurrence and its state. LinearMixer is a sublayer around one; the
// Bifocal layer runs one beside a window.
#pragma once

#include <optional>
#include <vector>

#include "mixers/linear/config.h"
#include "mixers/linear/steps.h"
#include "mixers/linear/token_shift.h"
#include "mixers/mixer.h"
#include "ops/linear.h"

namespace bifocal::linear {

// One call's numbers; a row is a token, [B * T, width].
struct BranchRows {
    int64_t B, T;
    View<float, 2> q, k, v;  // as projected; overwritten
    View<float, 2> decay, strength, gate;
    View<float, 2> q_features, k_features;
    View<float, 2> y;     // [B * T, H·V], the result
    ShiftedRows shifted;  // with a token shift
};

// Fields of the state, of numbers of `dtype`.
void add_linear_state(const LinearConfig& config, StateLayout& layout, DType dtype);

class LinearBranch {
  public:
    LinearBranch(LinearConfig config, LayerContext context);

    const LinearConfig& config() const { return config_; }
    // Of everything but q, k, v and the output projection.
    void add_weights(std::vector<WeightSpec>& list) const;
    Status bind(const WeightMap& weights);
    void add_state(StateLayout& layout) const;
    void init_state(const StateLayout& layout, std::byte* state) const;

    // Takes the rows of a call from the workspace, but for q, k, v.
    BranchRows take_rows(const Chunk& chunk, Exec& exec) const;
    // Bytes of those, and of what run() takes beside them.
    size_t row_bytes(int64_t n_rows) const;
    size_t run_bytes(int64_t n_rows, int n_threads) const;

    // With a token shift every projection has an input of its own, rows.shifted.
    bool has_shift() const { return config_.shift_rank > 0; }
    void shift(const BranchRows& rows, View<const float, 2> normed, const Chunk& chunk,
               Exec& exec) const;

    // The products of the normed input that go with q, k, v; returns how many, at most 3.
    size_t add_calls(const BranchRows& rows, ops::LinearCall* calls) const;
    // Fills rows.y. `normed`: [B * T, M], for projections that did not go with q, k, v.
    void run(const BranchRows& rows, View<const float, 2> normed, const Chunk& chunk,
             Exec& exec) const;

    std::vector<const ops::Linear*> linears() const;
    std::string describe() const;

  private:
    // A projection as it runs: one product, or two through a few numbers in between.
    struct Bound {
        const Projection* projection = nullptr;
        ops::Linear first, second;
        bool is_there() const { return projection && projection->n_out > 0; }
        int64_t rank() const { return projection ? projection->rank : 0; }
    };
    // Whether run() does its products.
    bool runs_apart(const Bound& p) const { return p.rank() > 0 || (has_shift() && p.is_there()); }
    void project(const Bound& p, View<const float, 2> in, View<float, 2> out, Exec& exec) const;
    void convolve_all(const BranchRows& rows, const Chunk& chunk, Exec& exec) const;
    void prepare_tokens(const BranchRows& rows, const Chunk& chunk, Exec& exec) const;
    void run_states(const BranchRows& rows, const Chunk& chunk, Exec& exec) const;
    void finish(const BranchRows& rows, Exec& exec) const;
    int64_t decay_width() const;
    int64_t low_width() const;

    LinearConfig config_;
    LayerContext context_;
    std::optional<ops::RopeTable> rope_;
    Bound decay_, strength_, gate_;
    TokenShift shift_;
    Params<float> params_;
};

}  // namespace bifocal::linear
