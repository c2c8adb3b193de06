// Where a model keeps its chat template, and the special tokens that it names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bifocal/error.h"
#include "formats/gguf/metadata.h"

namespace bifocal {

struct FoundTemplate {
    std::string source;
    std::string where;  // for ChatTemplate::compile
    // "bos_token": "<s>" and so on.
    std::vector<std::pair<std::string, std::string>> special_tokens;
};

// `path` is a GGUF file (key tokenizer.chat_template) or a folder (chat_template.jinja, else
// chat_template of tokenizer_config.json: a string, or a list of which "default" is taken).
Result<FoundTemplate> find_template(const std::string& path);
Result<FoundTemplate> find_template(const gguf::Metadata& metadata);

// Whether find_template() has anything to read there. `folder`: of a model.
bool has_template(const gguf::Metadata& metadata);
Result<bool> has_template(const std::string& folder);

// A template in a file of its own: no special tokens.
Result<FoundTemplate> read_template(const std::string& file);

}  // namespace bifocal
