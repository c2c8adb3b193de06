// Shapes of public models by name: what their layers would remember can be planned without a file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bifocal/error.h"
#include "model/model_spec.h"

namespace bifocal {

struct ModelShape {
    std::string_view name;  // as people write it, in small letters
    int64_t n_layers = 0;
    int64_t d_model = 0;     // M
    int64_t n_heads = 0;     // H
    int64_t n_kv_heads = 0;  // G
    int64_t head_dim = 0;    // D
    int64_t context_length = 0;
    // Every n-th layer is softmax, the others are the linear layers of the Qwen3.5 line; 0: all
    // are.
    int64_t full_attention_interval = 0;
};

std::span<const ModelShape> model_shapes();

// The shape as a model of full-attention layers, and of linear ones where it has them, without
// vocabulary and feed-forward; an error that lists the known names.
Result<ModelSpec> spec_of_shape(std::string_view name);

}  // namespace bifocal
