// Hand-written scanners for the pre-tokenizer patterns of well-known model families. Each finds the
// pieces that its regular expression finds, one piece a call.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace bifocal::tokenizer {

enum class Family { gpt2, llama3, qwen2, qwen35, o200k, tekken };

// The exact pattern text that a family's tokenizer.json carries.
std::string_view family_pattern(Family family);
// The family whose pattern is exactly `pattern`, if any.
std::optional<Family> family_of_pattern(std::string_view pattern);

// End of the piece that begins at `at`. The families' patterns match every character, so pieces
// follow each other without gaps. REQUIRES: valid UTF-8, at < text.size() and on a border.
size_t scan_piece(Family family, std::string_view text, size_t at);

}  // namespace bifocal::tokenizer
