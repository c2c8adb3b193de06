// The mixer contract: a sublayer that moves information between positions.
// It reads the residual stream, applies its own pre-norm, owns its projections, q/k norms, RoPE,
// gates and state, and adds its result back. Prefill is a long chunk, decode is T = 1: one path for
// callers; inside, a mixer may use whichever form it likes. Stateless and const after bind():
// everything that changes lives in the state slots and the workspace.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "core/tensor.h"
#include "core/view.h"
#include "mixers/spec.h"
#include "mixers/state.h"
#include "mixers/training.h"
#include "ops/exec.h"

namespace bifocal {

// How a layer that is converted from an attention layer begins with a weight.
struct WeightInit {
    std::string teacher = {};   // the attention layer's weight that it starts as; same elements
    bool queries_only = false;  // of a q_proj with an output gate: the rows of its queries
    // Else its values; empty: zeros.
    std::function<void(std::span<float> values, Rng& rng)> fill = {};
};

// A weight the mixer wants, named as in Hugging Face checkpoints, relative to the layer
// ("self_attn.q_proj.weight"). The model finds it under the source's own name.
struct WeightSpec {
    std::string name;
    std::vector<int64_t> shape;  // outermost first
    bool required = true;
    WeightInit init = {};  // for names that attention layers do not have
};

using WeightMap = std::map<std::string, Tensor, std::less<>>;

// New tokens of B sequences, the same T for each.
struct Chunk {
    View<float, 3> x;                    // [B, T, M] residual stream, updated in place
    std::span<const int64_t> pos;        // [B] absolute position of each sequence's first new token
    std::span<std::byte* const> states;  // [B] slots, each of `layout`; all different
    const StateLayout& layout;           // what state_layout() gave for this session
};

// Runs the definition over a whole sequence, from a fresh state. The slow twin.
// x: [T, M] residual stream of one sequence, updated in place.
using ReferenceForward = std::function<void(View<double, 2> x)>;

struct MixerTraits {
    bool trainable = false;  // training() has a backward
    // Outputs and states have the same bits however the tokens were cut into chunks; else they
    // agree within the rule of docs/numerics.md.
    bool same_bits_for_any_chunking = false;
    std::vector<std::string> devices{"cpu"};
};

class Mixer {
  public:
    virtual ~Mixer() = default;

    virtual const MixerSpec& spec() const = 0;  // every option explicit
    virtual MixerTraits traits() const = 0;
    virtual std::vector<WeightSpec> weights() const = 0;
    // Once, before anything below. Repacks what it needs; afterwards `weights` may go.
    virtual Status bind(const WeightMap& weights) = 0;

    virtual StateLayout state_layout(const StateOptions& options) const = 0;
    // Writes the state of a sequence with no tokens.
    virtual void init_state(const StateLayout& layout, std::byte* state) const = 0;
    // How many tokens can be taken back, by just moving the position, from a state whose furthest
    // position was `furthest`. All rewinds together stay within it: a sequence at pos <= furthest
    // can still go back rewind_limit(furthest) - (furthest - pos).
    virtual int64_t rewind_limit(const StateLayout& layout, int64_t furthest) const = 0;
    // How many of the `pos` tokens seen so far the next query can still read exactly; the rest is
    // what `run` reports as "left the window".
    virtual int64_t tokens_visible(const StateLayout& layout, int64_t pos) const = 0;

    // Scratch that forward() takes for n_tokens new tokens of each of `batch` sequences.
    virtual size_t workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                                   int n_threads) const = 0;
    virtual void forward(const Chunk& chunk, Exec& exec) const = 0;

    // The definition, for tests. In double it is the truth; in float it is the plain path of the
    // layer's precision, and fast paths may err at most about twice as much as it does.
    enum class Real { f64, f32 };
    virtual ReferenceForward reference(const WeightMap& weights, const StateOptions& options,
                                       Real real) const = 0;

    // The recurrent form in double, for mixers that have one beside the parallel form: a second
    // definition, written apart. Empty: none.
    virtual ReferenceForward recurrent_reference(const WeightMap&, const StateOptions&) const {
        return {};
    }

    // The layer with a backward (training.h); needs no bind(). All null unless trainable.
    virtual TrainingForms training() const { return {}; }

    // One line for each implementation choice: what runs and why.
    virtual std::vector<std::string> describe() const = 0;
    // Bytes of weights read per token.
    virtual int64_t weight_bytes() const = 0;
};

// Parses spec.options; an unknown option, a bad value, or a layer it does not fit is an error.
using MixerFactory = Result<std::unique_ptr<Mixer>> (*)(const MixerSpec&, const LayerContext&);

struct MixerEntry {
    std::string_view kind;
    MixerFactory make;
};
std::span<const MixerEntry> registered_mixers();
// An error that lists the known kinds, unless there is such a mixer.
Status check_mixer_kind(const std::string& kind);
Result<std::unique_ptr<Mixer>> make_mixer(const MixerSpec& spec, const LayerContext& context);

}  // namespace bifocal
