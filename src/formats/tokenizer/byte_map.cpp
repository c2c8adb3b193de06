// Two tables made at first use.
#include "formats/tokenizer/byte_map.h"

#include <array>

#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

constexpr int kStandIns = 324;  // code points below U+0144 may be stand-ins

struct ByteMap {
    std::array<std::string, 256> text;
    std::array<int16_t, kStandIns> byte;

    ByteMap() {
        byte.fill(-1);
        int next = 256;
        for (int b = 0; b < 256; ++b) {
            const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
            const int c = itself ? b : next++;
            unicode::append(text[b], static_cast<char32_t>(c));
            byte[c] = static_cast<int16_t>(b);
        }
    }
};

const ByteMap& byte_map() {
    static const ByteMap map;
    return map;
}

}  // namespace

std::string_view mapped_byte(uint8_t byte) {
    return byte_map().text[byte];
}

std::string to_mapped(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() + bytes.size() / 4);
    for (const char b : bytes) out += mapped_byte(static_cast<uint8_t>(b));
    return out;
}

std::optional<std::string> from_mapped(std::string_view text) {
    const ByteMap& map = byte_map();
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const unicode::Decoded c = unicode::decode(text, at);
        at += c.bytes;
        if (c.code_point >= kStandIns || map.byte[c.code_point] < 0) return std::nullopt;
        out += static_cast<char>(map.byte[c.code_point]);
    }
    return out;
}

}  // namespace bifocal::tokenizer
