// ModelSpec: a decoder-only model as plain data. Families fill it from config.json or GGUF
// metadata; the decoder asks it for properties and never for a family's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mixers/spec.h"
#include "ops/ffn.h"

namespace bifocal {

// What a family calls the parts of its experts in Hugging Face checkpoints, without ".weight";
// empty: it has none.
struct ExpertNames {
    std::string_view router = {};
    std::string_view correction = {};  // of ranks, ops/gating.h; the whole name
    std::string_view experts = {};
    std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";  // of one expert
    std::string_view shared = {}, shared_gate = {};  // its parts are called gate_proj...
    // Tensors of all experts, "gate_up_proj" and "down_proj": [E, M, 2F], where columns of gate and
    // up take turns, and [E, F, M]; else [E, 2F, M], gate before up, and [E, M, F].
    bool is_interleaved = false;
};

// A feed-forward of experts, ops/moe.h.
struct ExpertsSpec {
    int64_t n_experts = 0;    // E
    int64_t n_used = 0;       // K, for each token
    int64_t d_ff = 0;         // F of one expert
    int64_t d_ff_shared = 0;  // of the one that all tokens go through; 0: none
    ops::Gating gating;
    bool has_biases = false;  // router and experts
    ops::Activation activation = ops::Activation::silu;
    ExpertNames names;
};

struct LayerSpec {
    LayerContext context;
    MixerSpec mixer;                          // the checkpoint's own; --attention replaces it
    int64_t d_ff = 0;                         // F of a dense feed-forward
    std::optional<ExpertsSpec> experts = {};  // instead of a dense feed-forward
    std::optional<ops::NormedResidual> ffn_residual = {};  // none: x += result
    bool is_native_linear = false;  // the checkpoint's family made it so: see layout.h
};

// Sizes of the linear layers that a checkpoint has of its own.
struct LinearSizes {
    int64_t key_heads = 0, value_heads = 0;  // 0: it has no such layers
    int64_t key_dim = 0, value_dim = 0;      // of one head
    int64_t conv_width = 0;                  // taps
    bool tiles_values = false;  // value head h reads key head h mod key_heads, not by groups
};

struct ModelSpec {
    std::string family;          // for display only
    int64_t vocab_size = 0;      // rows of the embedding
    int64_t d_model = 0;         // M
    int64_t d_ff = 0;            // F, of the widest dense layer
    int64_t context_length = 0;  // trained length
    float norm_eps = 1e-5f;
    float norm_offset = 0;
    float embedding_scale = 1;  // sqrt(M) in Gemma 3
    ops::Activation activation = ops::Activation::silu;
    bool mlp_bias = false;
    bool tied_embedding = false;
    LinearSizes linear;
    std::vector<LayerSpec> layers;
    std::vector<int32_t> stop_tokens;
};

}  // namespace bifocal
