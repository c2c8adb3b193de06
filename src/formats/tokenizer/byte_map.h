// The printable stand-ins for bytes that byte-level vocabularies are written in: bytes 33-126,
// 161-172 and 174-255 stand for themselves as code points, the other 68 follow from U+0100.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bifocal::tokenizer {

// UTF-8 of the stand-in of `byte`.
std::string_view mapped_byte(uint8_t byte);
std::string to_mapped(std::string_view bytes);
// The bytes that `text` stands for; nothing when a character is no stand-in.
// REQUIRES: valid UTF-8.
std::optional<std::string> from_mapped(std::string_view text);

}  // namespace bifocal::tokenizer
