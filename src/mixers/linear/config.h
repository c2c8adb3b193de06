// LinearConfig: everything that makes one system of the linear family, as data. A rule
// (rules/NAME.cpp) fills it in from its options and the layer; layer.cpp runs it. Order of the
// steps for one token, names as in README.md:
//   projections of the normed x → short convolution → activation → q/k norm → RoPE → feature map
//   → l2 norm → gates → recurrence → skip → output norm and gate → output projection
// With a token shift each projection has its own mix of a token and the one before as its input.
#pragma once

#include <string>
#include <vector>

#include "mixers/linear/recurrence.h"
#include "mixers/mixer.h"

namespace bifocal::linear {

enum class Activation : uint8_t { none, silu };

enum class FeatureMap : uint8_t {
    identity,
    elu_plus_one,     // elu(x) + 1
    softmax,          // over the elements of a head
    learned_softmax,  // softmax(U x), a matrix for each head
    hedgehog,         // softmax(x U) and softmax(-x U), half of the features each
    dct_softmax,      // softmax(x C diag(r)): the cosine transform, weighed
};

enum class Decay : uint8_t {
    none,
    constant,       // a number for each state head
    log_sigmoid,    // log σ(f) / divisor
    softplus_rate,  // -exp(A_log) softplus(f + dt_bias)
    bounded_rate,   // bound σ(exp(A_log) (f + dt_bias))
    exponential,    // -exp(f), not below the bound
};

enum class Strength : uint8_t {
    one,
    raw,       // i, an exponent
    sigmoid,   // factor σ(i)
    softplus,  // softplus(i + dt_bias), the step that also decays
};

enum class OutputNorm : uint8_t {
    none,
    layer_norm,         // per head, weight [H·V]
    layer_norm_biased,  // per head, weight and bias [H·V]
    rms_norm,           // per head, weight [V]
    rms_grouped,        // per head, weight [H·V]
    rms_all,            // over all heads, weight [H·V]
    group_norm,         // V groups over H·V channels, weight and bias [H·V]
};
enum class OutputGate : uint8_t { none, sigmoid, silu };

// A projection of the normed input, `rank` > 0: through two factors.
struct Projection {
    std::string name;  // relative to the layer; empty: there is none
    int64_t n_out = 0;
    bool has_bias = false;
    int64_t rank = 0;
    bool has_tanh = false;        // between the factors
    bool starts_at_zero = false;  // when a layer is converted: its matrix, of two the first
    WeightInit bias_init = {};    // and its bias
    // Names of the factors that have their own; else they are NAME.0 and NAME.1.
    std::string first_factor = {}, last_factor = {};

    // What multiplies the input, and what gives the n_out numbers; without a rank they are one.
    std::string first_name() const {
        return rank == 0 ? name : first_factor.empty() ? name + ".0" : first_factor;
    }
    std::string last_name() const {
        return rank == 0 ? name : last_factor.empty() ? name + ".1" : last_factor;
    }
};

struct LinearConfig {
    MixerSpec spec;                               // every option explicit
    int64_t n_query = 0, n_key = 0, n_value = 0;  // heads as projected
    int64_t n_states = 0;                         // heads of the recurrence
    // State s reads key head s mod n_key, not s / (states / n_key): GGUF files of Qwen3.5.
    bool tiles_values = false;
    bool expands_keys = false;  // features of keys for each state head instead of each key head
    int64_t head_dim = 0;       // of q and k before the feature map
    Recurrence recurrence;      // key_dim: features of one head

    std::string prefix = "linear_attn.";      // of the weights
    std::string qkv_prefix = "linear_attn.";  // of what is projected to q, k, v, and of their norms
    std::string out_name = "o_proj";
    bool is_far = false;       // beside a window, whose q, k, v and output projection it shares
    bool is_fused = false;     // in_proj_qkv and conv1d instead of one for each of q, k, v
    bool packs_heads = false;  // qkv_proj, with rows of q, k and v for each head in turn
    int64_t shift_rank = 0;    // of the token shift; 0: none
    int64_t conv_width = 0;    // 0: no convolution; its result goes through silu
    bool conv_bias = false;
    Activation qk_activation = Activation::none, v_activation = Activation::none;
    bool has_qkv_bias = false;  // the layer's
    bool has_qk_norm = false;   // the layer's
    bool has_rope = false;      // the layer's
    FeatureMap feature_map = FeatureMap::identity;
    bool has_l2_norm = false;       // of the features of q and k
    bool decays_from_keys = false;  // the decay's pre-activation is k as projected
    bool balances_keys = false;     // features of k times 1 - e^g; they are by state head

    Decay decay = Decay::none;
    Projection decay_projection;     // n_out: states, or states · K
    std::vector<double> log_decays;  // [states] of Decay::constant
    double decay_divisor = 1;        // log_sigmoid
    double decay_bound = -5;         // bounded_rate, exponential
    double soft_cap = 0;             // c tanh(x / c) on both pre-activations; 0: none
    Strength strength = Strength::one;
    Projection strength_projection;  // n_out: states
    double strength_factor = 1;      // sigmoid

    bool has_skip = false;  // y += D v
    OutputNorm output_norm = OutputNorm::none;
    std::string output_norm_name;
    double output_norm_eps = 1e-5;
    OutputGate output_gate = OutputGate::none;
    Projection gate_projection;  // n_out: H·V
    bool gates_before_norm = false;

    bool has_backward = false;  // the rule's steps are all in training/, and tested there

    // Heads of the output: one for each query head, or for each state if these are more.
    int64_t n_out_heads() const { return n_query > n_states ? n_query : n_states; }
    int64_t n_key_features() const { return expands_keys ? n_states : n_key; }
    int64_t n_feature_heads() const { return n_query + n_key_features(); }
    // Which of `heads` query, key or value heads state s reads: consecutive states share one, or
    // with tiles_values equidistant ones.
    int64_t head_of_state(int64_t s, int64_t heads) const {
        return tiles_values ? s % heads : s * heads / n_states;
    }
    bool write_erases() const { return recurrence.write == Write::delta; }
    int64_t value_dim() const { return recurrence.value_dim; }
    int64_t key_dim() const { return recurrence.key_dim; }
};

}  // namespace bifocal::linear
