// The form of a mixer that can be trained: a forward with its backward, on weights that come with
// every call, because an optimiser changes them. Mixer::forward() and bind() know nothing of it.
// A long sequence may be cut into stretches; what one hands to the next is a state, and its
// gradient goes the other way. docs/adr/0012-backward.md says why it is this way.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/view.h"
#include "mixers/state.h"
#include "ops/exec.h"

namespace bifocal {

// Weights and their gradients by the names of Mixer::weights(), row-major.
template <class R>
using WeightValues = std::map<std::string, std::span<const R>, std::less<>>;
// Gradients are added to what is there. A weight that is not in the map is frozen.
template <class R>
using WeightGrads = std::map<std::string, std::span<R>, std::less<>>;

// The next T tokens of B sequences.
template <class R>
struct Stretch {
    const WeightValues<R>& weights;
    View<const R, 3> x;            // [B, T, M] residual stream before the layer
    std::span<const int64_t> pos;  // [B] absolute position of each first token
    // [B] states, each of `layout`. Empty: nothing came before and nothing follows.
    std::span<std::byte* const> states = {};
    const StateLayout* layout = nullptr;
};

template <class R>
struct StretchGrads {
    View<const R, 3> dy;  // [B, T, M] of the residual stream after the layer
    View<R, 3> dx;        // [B, T, M] of that before it; overwritten
    // [B] of `layout`. In: gradients of the states after the stretch, zeros when nothing follows.
    // Out: of those before it. Empty if the stretch has no states.
    std::span<std::byte* const> dstates = {};
    const WeightGrads<R>& weights;
};

template <class R>
class TrainingForm {
  public:
    virtual ~TrainingForm() = default;

    // What a stretch hands to the next: all that inference keeps, in full precision.
    virtual StateLayout state_layout(const StateOptions& options) const = 0;
    virtual void init_state(const StateLayout& layout, std::byte* state) const = 0;
    // Scratch of either call; layout null: stretches without states.
    virtual size_t workspace_bytes(const StateLayout* layout, int64_t batch, int64_t n_tokens,
                                   int n_threads) const = 0;
    // y = the residual stream after the layer; the states go on.
    virtual void forward(const Stretch<R>& stretch, View<R, 3> y, Exec& exec) const = 0;
    // The stretch as forward() got it, its states as they were before. What lies in between is
    // found again.
    virtual void backward(const Stretch<R>& stretch, const StretchGrads<R>& grads,
                          Exec& exec) const = 0;
};

// All null unless MixerTraits::trainable.
struct TrainingForms {
    std::unique_ptr<TrainingForm<float>> fast;    // what trains
    std::unique_ptr<TrainingForm<float>> plain;   // token by token, sums as on paper: the plain
                                                  // path of docs/numerics.md
    std::unique_ptr<TrainingForm<double>> exact;  // the fast one's formulas in double
};

}  // namespace bifocal
