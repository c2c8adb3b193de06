// From a checkpoint's own description to a ModelSpec. `tokens`: how long a sequence will get, which
// chooses between the two sets of frequencies of longrope.
#pragma once

#include "formats/config/hf_config.h"
#include "formats/gguf/metadata.h"
#include "model/families/hyperparameters.h"

namespace bifocal {

// Sizes that only the tensors know (the vocabulary, whether there are biases) come from there.
Result<ModelSpec> spec_from_gguf(const Family& family, const gguf::Metadata& metadata,
                                 const Checkpoint& checkpoint, int64_t tokens);

}  // namespace bifocal
