// Normalisation is utf8proc's, between barriers: code points newer than the reference's tables
// (category.h, is_opaque) neither decompose nor combine nor move, so text is cut there.
#include "formats/unicode/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "formats/unicode/category.h"
#include "formats/unicode/utf8.h"

namespace bifocal::unicode {
namespace {

utf8proc_option_t options_of(Form form) {
    int options = UTF8PROC_STABLE;
    options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
    return static_cast<utf8proc_option_t>(options);
}

// Appends `stretch` in normal form. `buffer` is scratch memory kept between calls.
void append_normal(std::string& out, std::string_view stretch, utf8proc_option_t options,
                   std::vector<utf8proc_int32_t>& buffer) {
    if (stretch.empty()) return;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(stretch.data());
    const auto size = static_cast<utf8proc_ssize_t>(stretch.size());
    if (buffer.size() < stretch.size() * 2) buffer.resize(stretch.size() * 2);
    const auto capacity = [&] { return static_cast<utf8proc_ssize_t>(buffer.size()); };
    utf8proc_ssize_t count = utf8proc_decompose(bytes, size, buffer.data(), capacity(), options);
    if (count > capacity()) {
        buffer.resize(count);
        count = utf8proc_decompose(bytes, size, buffer.data(), capacity(), options);
    }
    BIFOCAL_CHECK(count >= 0, "utf8proc: {}", utf8proc_errmsg(count));
    // Composes in place when the options say so.
    count = utf8proc_normalize_utf32(buffer.data(), count, options);
    BIFOCAL_CHECK(count >= 0, "utf8proc: {}", utf8proc_errmsg(count));
    for (utf8proc_ssize_t i = 0; i < count; ++i) append(out, static_cast<char32_t>(buffer[i]));
}

char32_t lower(char32_t c) {
    const LowerRange* end = kLowerRanges + kLowerRangeCount;
    const LowerRange* after = std::upper_bound(
        kLowerRanges, end, c, [](char32_t value, const LowerRange& r) { return value < r.first; });
    if (after == kLowerRanges) return c;
    const LowerRange& range = after[-1];
    if (c <= range.last && (c - range.first) % range.stride == 0) return c + range.delta;
    return c;
}

}  // namespace

std::string normalize(std::string_view text, Form form) {
    const bool ascii =
        std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
    if (ascii) return std::string(text);
    const utf8proc_option_t options = options_of(form);
    std::vector<utf8proc_int32_t> buffer;
    std::string out;
    out.reserve(text.size());
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        const Decoded c = decode(text, at);
        if (is_opaque(c.code_point)) {
            append_normal(out, text.substr(begin, at - begin), options, buffer);
            out.append(text, at, c.bytes);
            begin = at + c.bytes;
        }
        at += c.bytes;
    }
    append_normal(out, text.substr(begin), options, buffer);
    return out;
}

std::string lowercase(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Decoded c = decode(text, at);
        at += c.bytes;
        append(out, lower(c.code_point));
        // The one code point whose lower case is two: I with dot above.
        if (c.code_point == 0x130) out.replace(out.size() - 2, 2, "i\xCC\x87");
    }
    return out;
}

}  // namespace bifocal::unicode
