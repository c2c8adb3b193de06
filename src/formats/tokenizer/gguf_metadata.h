// Tokenizers of model files: reads the tokenizer.ggml.* keys of a GGUF file.
#pragma once

#include <string>

#include "bifocal/error.h"
#include "formats/gguf/metadata.h"
#include "formats/tokenizer/gguf_vocab.h"
#include "formats/tokenizer/tokenizer.h"

namespace bifocal::tokenizer {

// Checks key types; lengths, ids and merges are checked by Tokenizer::from_gguf.
Result<GgufVocab> read_vocab(const gguf::Metadata& metadata);

// read_vocab and from_gguf.
Result<Tokenizer> load_tokenizer(const gguf::Metadata& metadata);
// `path` is a GGUF file, a tokenizer.json, or a folder with a tokenizer.json.
Result<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace bifocal::tokenizer
