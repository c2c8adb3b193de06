#include "formats/template/text.h"

#include <algorithm>

#include "formats/unicode/utf8.h"

namespace bifocal::jinja {
namespace {

void add_span(std::vector<Span>& spans, Span span) {
    if (span.begin == span.end) return;
    if (!spans.empty() && spans.back().end == span.begin) {
        spans.back().end = span.end;
    } else {
        spans.push_back(span);
    }
}

}  // namespace

bool Text::from_user(size_t byte) const {
    const auto after = std::upper_bound(user.begin(), user.end(), byte,
                                        [](size_t b, const Span& span) { return b < span.end; });
    return after != user.end() && byte >= after->begin;
}

void Text::append(std::string_view more, bool is_user) {
    const size_t begin = bytes.size();
    bytes += more;
    if (is_user) add_span(user, {begin, bytes.size()});
}

void Text::append(const Text& more, size_t begin, size_t end) {
    const size_t base = bytes.size();
    bytes.append(more.bytes, begin, end - begin);
    auto span = std::upper_bound(more.user.begin(), more.user.end(), begin,
                                 [](size_t b, const Span& s) { return b < s.end; });
    for (; span != more.user.end() && span->begin < end; ++span) {
        const size_t from = std::max(span->begin, begin), to = std::min(span->end, end);
        add_span(user, {base + from - begin, base + to - begin});
    }
}

Text Text::slice(size_t begin, size_t end) const {
    Text part;
    part.markup = markup;
    if (begin < end) part.append(*this, begin, end);
    return part;
}

void Text::mark_all() {
    user.clear();
    add_span(user, {0, bytes.size()});
}

std::vector<Letter> letters(const Text& text) {
    std::vector<Letter> result;
    result.reserve(text.bytes.size());
    auto span = text.user.begin();
    for (size_t at = 0; at < text.bytes.size();) {
        while (span != text.user.end() && span->end <= at) ++span;
        const bool user = span != text.user.end() && at >= span->begin;
        result.push_back({next_code_point(text.bytes, at), user});
    }
    return result;
}

Text from_letters(const std::vector<Letter>& letters) {
    Text text;
    text.bytes.reserve(letters.size());
    for (const Letter& letter : letters) {
        const size_t begin = text.bytes.size();
        unicode::append(text.bytes, letter.code);
        if (letter.user) add_span(text.user, {begin, text.bytes.size()});
    }
    return text;
}

size_t count_code_points(std::string_view bytes) {
    size_t count = 0;
    for (const char c : bytes) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return count;
}

char32_t next_code_point(std::string_view bytes, size_t& at) {
    const unicode::Decoded decoded = unicode::decode(bytes, at);
    at += static_cast<size_t>(decoded.bytes);
    return decoded.code_point;
}

size_t byte_of_code_point(std::string_view bytes, size_t index) {
    size_t at = 0;
    for (; at < bytes.size(); ++at) {
        if ((static_cast<unsigned char>(bytes[at]) & 0xc0) == 0x80) continue;
        if (index-- == 0) break;
    }
    return at;
}

bool is_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

Span stripped(std::string_view bytes, bool left, bool right, std::string_view drop,
              bool drop_space) {
    const auto dropped = [&](std::string_view one) {
        if (drop_space) {
            size_t at = 0;
            return is_space(next_code_point(one, at));
        }
        return drop.find(one) != std::string_view::npos;
    };
    Span keep{0, bytes.size()};
    while (left && keep.begin < keep.end) {
        size_t next = keep.begin;
        next_code_point(bytes, next);
        if (!dropped(bytes.substr(keep.begin, next - keep.begin))) break;
        keep.begin = next;
    }
    while (right && keep.begin < keep.end) {
        size_t last = keep.end - 1;
        while ((static_cast<unsigned char>(bytes[last]) & 0xc0) == 0x80) --last;
        if (!dropped(bytes.substr(last, keep.end - last))) break;
        keep.end = last;
    }
    return keep;
}

}  // namespace bifocal::jinja
