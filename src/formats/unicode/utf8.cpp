// Well-formedness by table 3-7 of the Unicode standard.
#include "formats/unicode/utf8.h"

namespace bifocal::unicode {

Decoded decode_before(std::string_view text, size_t end) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    return decode(text, at);
}

void append(std::string& out, char32_t c) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
    if (c < 0x80) {
        out += static_cast<char>(c);
    } else if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
        tail(0);
    } else if (c < 0x10000) {
        out += static_cast<char>(0xE0 | (c >> 12));
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xF0 | (c >> 18));
        tail(12);
        tail(6);
        tail(0);
    }
}

Scanned scan(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
    const uint8_t lead = byte(0);
    if (lead < 0x80) return {Part::character, 1};
    int length = 0;
    uint8_t low = 0x80, high = 0xBF;  // what the second byte may be
    if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {Part::ill_formed, 1};
    }
    for (int i = 1; i < length; ++i) {
        if (at + i >= text.size()) return {Part::cut_off, i};
        if (byte(i) < low || byte(i) > high) return {Part::ill_formed, i};
        low = 0x80;
        high = 0xBF;
    }
    return {Part::character, length};
}

size_t find_invalid(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        if (static_cast<uint8_t>(text[at]) < 0x80) {
            ++at;
            continue;
        }
        const Scanned scanned = scan(text, at);
        if (scanned.part != Part::character) return at;
        at += scanned.bytes;
    }
    return std::string_view::npos;
}

std::string replace_invalid(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Scanned scanned = scan(text, at);
        if (scanned.part == Part::character) {
            out.append(text, at, scanned.bytes);
        } else {
            out += kReplacement;
        }
        at += scanned.bytes;
    }
    return out;
}

}  // namespace bifocal::unicode
