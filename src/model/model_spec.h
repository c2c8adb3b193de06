// ModelSpec: a decoder-only model as plain data. Families fill it from config.json or GGUF
// metadata; the decoder asks it for properties and never for a family's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mixers/spec.h"
#include "ops/ffn.h"

namespace bifocal {

struct LayerSpec {
    LayerContext context;
    MixerSpec mixer;                // the checkpoint's own; --attention replaces it
    int64_t d_ff = 0;               // F
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
    int64_t d_ff = 0;            // F, of the widest layer
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
