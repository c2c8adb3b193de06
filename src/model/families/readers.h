// From a checkpoint's own description to a ModelSpec. `tokens`: how long a sequence will get, which
// chooses between the two sets of frequencies of longrope; 0: the trained length.
#pragma once

#include "core/json/json.h"
#include "formats/gguf/file.h"
#include "model/families/hyperparameters.h"

namespace bifocal {

// What only the tensors know (whether there are biases, whether the head is tied) comes from there.
Result<ModelSpec> spec_from_gguf(const Family& family, const gguf::File& file,
                                 const Checkpoint& checkpoint, int64_t tokens);

// `config`: config.json, or its text_config in a model that also sees images.
Result<ModelSpec> spec_from_hf(const Family& family, const json::Fields& config, int64_t tokens);
// generation_config.json may name more ids that end a text.
Result<std::vector<int32_t>> stops_from_generation_config(const json::Fields& config);

}  // namespace bifocal
