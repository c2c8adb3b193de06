// Everything a model's files say, before a decoder is built: from a GGUF file or a Hugging Face
// folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "formats/tokenizer/tokenizer.h"
#include "model/families/family.h"
#include "model/model_spec.h"
#include "model/weight_table.h"

namespace bifocal {

struct Source {
    Checkpoint checkpoint;
    ModelSpec spec;
    std::optional<tokenizer::Tokenizer> tokenizer;
    std::optional<std::string> chat_template;
    const Family* family = nullptr;
    std::string format, name;
    int64_t file_bytes = 0;
    std::vector<std::string> notes;
};

// `tokens`: how long a sequence will get; 0: the trained length.
Result<Source> open_gguf(const std::string& path, int64_t tokens);
Result<Source> open_folder(const std::string& path, int64_t tokens);

}  // namespace bifocal
