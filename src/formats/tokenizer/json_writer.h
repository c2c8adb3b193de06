// A GGUF file's tokenizer as the tokenizer.json that Hugging Face readers know.
#pragma once

#include <string>

#include "bifocal/error.h"
#include "formats/tokenizer/gguf_vocab.h"

namespace bifocal::tokenizer {

// Byte-level BPE ("gpt2") only: SentencePiece vocabularies have scores, which tokenizer.json has no
// place for. `where` names the vocabulary's file in errors.
Result<std::string> to_tokenizer_json(const GgufVocab& vocab, const std::string& where);

}  // namespace bifocal::tokenizer
