// The component objects of a tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor.
// A component that is not known is an error with its name.
#pragma once

#include "formats/tokenizer/json_reader.h"
#include "formats/tokenizer/parts.h"

namespace bifocal::tokenizer {

Status read_normalizer(const JsonObject& json, Normalizer& out, int depth = 0);
Status read_pre_tokenizer(const JsonObject& json, PreTokenizer& out, int depth = 0);
Status read_decoder(const JsonObject& json, Decoder& out, int depth = 0);
// Fills in parts.prefix and parts.suffix. REQUIRES: parts has its tokens.
Status read_post_processor(const JsonObject& json, Parts& parts, int depth = 0);

}  // namespace bifocal::tokenizer
