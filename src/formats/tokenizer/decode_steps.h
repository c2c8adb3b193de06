// What the whole-sequence and the streaming decoder share, one token at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/tokenizer/decoder.h"

namespace bifocal::tokenizer {

// The byte that <0xHH> stands for.
std::optional<uint8_t> byte_token(std::string_view token);
// Bytes of a byte-level token; a token with a character outside the map stands for its own UTF-8.
std::string byte_level_bytes(std::string_view token);
std::string strip(const StripDecoder& step, std::string_view text);
std::string metaspace(const MetaspaceDecoder& step, std::string_view token, bool first);

}  // namespace bifocal::tokenizer
