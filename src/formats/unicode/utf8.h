// UTF-8: stepping through valid text, and finding and replacing what is ill-formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bifocal::unicode {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Decoded {
    char32_t code_point;
    int bytes;
};

// The code point at text[at]. REQUIRES: valid UTF-8, at < size and on a border.
inline Decoded decode(std::string_view text, size_t at) {
    const auto* p = reinterpret_cast<const uint8_t*>(text.data()) + at;
    if (p[0] < 0x80) return {p[0], 1};
    if (p[0] < 0xE0) return {(p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu), 2};
    if (p[0] < 0xF0) return {(p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu), 3};
    return {(p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu), 4};
}

// The code point that ends at text[end - 1]. REQUIRES: valid UTF-8, end > 0 and on a border.
Decoded decode_before(std::string_view text, size_t end);

void append(std::string& out, char32_t code_point);

// What stands at text[at] of text that may be ill-formed: a whole character, the maximal ill-formed
// part (what one U+FFFD replaces), or the beginning of a character that the end of text cuts off.
enum class Part { character, ill_formed, cut_off };
struct Scanned {
    Part part;
    int bytes;
};
Scanned scan(std::string_view text, size_t at);

// Offset of the first ill-formed byte, or npos.
size_t find_invalid(std::string_view text);
inline bool is_valid(std::string_view text) {
    return find_invalid(text) == std::string_view::npos;
}
// One U+FFFD for each maximal ill-formed part.
std::string replace_invalid(std::string_view text);

}  // namespace bifocal::unicode
