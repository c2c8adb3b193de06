// The linear layers that checkpoints of the Qwen3.5 line have of their own: which layers they are
// and how large, from config.json or GGUF metadata.
#pragma once

#include "core/json/json.h"
#include "formats/gguf/file.h"
#include "model/families/hyperparameters.h"

namespace bifocal {

// Fills in numbers.is_linear and numbers.linear; of a family without such layers: none are.
// REQUIRES: numbers.n_layers is known.
Status read_linear_layers(const Family& family, const json::Fields& config,
                          Hyperparameters& numbers);
Status read_linear_layers(const Family& family, const gguf::Metadata& metadata,
                          Hyperparameters& numbers);

// What the sizes must satisfy, however they were read.
Status check_linear_layers(const Hyperparameters& numbers);
// The mixer of such a layer.
MixerSpec native_linear_mixer(LinearRule rule, const LinearSizes& sizes, double norm_eps);

}  // namespace bifocal
