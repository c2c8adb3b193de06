// Model: a checkpoint on disk (GGUF file or Hugging Face folder), its tokenizer and chat template,
// ready to run at a chosen attention layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bifocal/error.h"

namespace bifocal {

struct ModelOptions {
    std::string
        attention;       // "", a SPEC for every layer, or "@layout.json"; "": the checkpoint's own
    bool exact = false;  // FP32 activations and dequantised weights
};

}  // namespace bifocal
