// Methods of strings, as Python's str has them. Every result keeps the origin of its bytes.
#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "formats/template/filters.h"
#include "formats/template/lexer.h"
#include "formats/template/methods.h"
#include "formats/template/unicode_case.h"

namespace bifocal::jinja {
namespace {

const Text& text_argument(const Value& value, std::string_view method) {
    if (value.is(Kind::undefined)) fail(value.get<UndefinedObject>().message);
    if (!value.is_string())
        fail(fmt::format("{}() needs a string, not '{}'", method, type_name(value)));
    return value.text();
}

std::vector<Value> positional(const Args& args, std::string_view method,
                              std::initializer_list<std::string_view> names, size_t required = 0) {
    if (!args.named.empty()) fail(fmt::format("{}() takes no keyword arguments", method));
    return bind(args, method, names, required);
}

bool given(const Value& value) {
    return !value.is_missing() && !value.is(Kind::none);
}

Value strip(Machine& m, const Value& self, Args& args, bool left, bool right) {
    const auto bound = positional(args, "strip", {"chars"});
    const Text& text = self.text();
    m.step_bytes(text.bytes.size());
    const bool spaces = !given(bound[0]);
    std::string_view drop;
    if (!spaces) drop = text_argument(bound[0], "strip").bytes;
    const Span keep = stripped(text.bytes, left, right, drop, spaces);
    return m.string(text.slice(keep.begin, keep.end));
}
Value strip_both(Machine& m, const Value& s, Args& a) {
    return strip(m, s, a, true, true);
}
Value strip_left(Machine& m, const Value& s, Args& a) {
    return strip(m, s, a, true, false);
}
Value strip_right(Machine& m, const Value& s, Args& a) {
    return strip(m, s, a, false, true);
}

template <Text (*change)(const Text&)>
Value change_case(Machine& m, const Value& self, Args& args) {
    bind(args, "method", {});
    return m.string(change(self.text()));
}

// Byte range of self[start:end], bounds in code points as Python clamps them.
Span window(Machine& m, const Value& self, const Value& start, const Value& end) {
    const std::string& bytes = self.text().bytes;
    if (!given(start) && !given(end)) return {0, bytes.size()};
    const int64_t size = *length_of(m, self);
    const auto edge = [&](const Value& value, int64_t otherwise) {
        if (!given(value)) return otherwise;
        const int64_t at = index_argument(value, "an index");
        return at < 0 ? (at < -size ? 0 : at + size) : at;
    };
    const int64_t from = edge(start, 0), to = std::min(edge(end, size), size);
    if (from > to) return {1, 0};  // holds nothing, not even an empty string
    return {byte_of_code_point(bytes, static_cast<size_t>(from)),
            byte_of_code_point(bytes, static_cast<size_t>(to))};
}

Value has_affix(Machine& m, const Value& self, Args& args, bool at_end) {
    const std::string_view name = at_end ? "endswith" : "startswith";
    const auto bound = positional(args, name, {"affix", "start", "end"}, 1);
    const Span span = window(m, self, bound[1], bound[2]);
    std::vector<Value> affixes = {bound[0]};
    if (bound[0].is(Kind::tuple)) affixes = bound[0].items();
    bool found = false;
    for (const Value& one : affixes) {
        const std::string& affix = text_argument(one, name).bytes;
        if (span.begin > span.end) continue;
        const auto part =
            std::string_view(self.text().bytes).substr(span.begin, span.end - span.begin);
        found |= at_end ? part.ends_with(affix) : part.starts_with(affix);
    }
    return Value::boolean(found);
}
Value starts_with(Machine& m, const Value& s, Args& a) {
    return has_affix(m, s, a, false);
}
Value ends_with(Machine& m, const Value& s, Args& a) {
    return has_affix(m, s, a, true);
}

Value find_in(Machine& m, const Value& self, Args& args, bool from_right, bool must) {
    const auto bound = positional(args, "find", {"sub", "start", "end"}, 1);
    const std::string& sub = text_argument(bound[0], "find").bytes;
    const Span span = window(m, self, bound[1], bound[2]);
    size_t at = std::string::npos;
    m.step_search(self.text().bytes, sub);
    if (span.begin <= span.end) {
        const auto part =
            std::string_view(self.text().bytes).substr(span.begin, span.end - span.begin);
        at = from_right ? part.rfind(sub) : part.find(sub);
    }
    if (at == std::string::npos) {
        if (must) fail("substring not found");
        return Value::integer(-1);
    }
    const auto before = std::string_view(self.text().bytes).substr(0, span.begin + at);
    return Value::integer(static_cast<int64_t>(count_code_points(before)));
}
Value find_left(Machine& m, const Value& s, Args& a) {
    return find_in(m, s, a, false, false);
}
Value find_right(Machine& m, const Value& s, Args& a) {
    return find_in(m, s, a, true, false);
}
Value index_left(Machine& m, const Value& s, Args& a) {
    return find_in(m, s, a, false, true);
}
Value index_right(Machine& m, const Value& s, Args& a) {
    return find_in(m, s, a, true, true);
}

Value count(Machine& m, const Value& self, Args& args) {
    const auto bound = positional(args, "count", {"sub", "start", "end"}, 1);
    const std::string& sub = text_argument(bound[0], "count").bytes;
    const Span span = window(m, self, bound[1], bound[2]);
    if (span.begin > span.end) return Value::integer(0);
    const auto part = std::string_view(self.text().bytes).substr(span.begin, span.end - span.begin);
    m.step_search(part, sub);
    if (sub.empty()) return Value::integer(static_cast<int64_t>(count_code_points(part)) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = part.find(sub, at)) != std::string_view::npos; at += sub.size()) ++n;
    return Value::integer(n);
}

// Pieces between white space, at most `limit` cuts, from the left or the right.
std::vector<Span> split_spaces(const std::string& bytes, int64_t limit, bool from_right) {
    std::vector<Span> words;
    for (size_t at = 0; at < bytes.size();) {
        size_t next = at;
        if (is_space(next_code_point(bytes, next))) {
            at = next;
            continue;
        }
        const size_t begin = at;
        while (at < bytes.size()) {
            next = at;
            if (is_space(next_code_point(bytes, next))) break;
            at = next;
        }
        words.push_back({begin, at});
    }
    if (limit < 0) return words;
    const auto cuts = static_cast<size_t>(limit);
    if (words.size() <= cuts) return words;
    if (!from_right) {
        words[cuts].end = bytes.size();  // what is not cut keeps its white space
        words.resize(cuts + 1);
        return words;
    }
    const size_t first = words.size() - cuts - 1;
    words[first].begin = 0;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
    return words;
}

std::vector<Span> split_by(const std::string& bytes, const std::string& separator, int64_t limit,
                           bool from_right) {
    std::vector<Span> parts;
    if (!from_right) {
        size_t begin = 0;
        for (size_t at; limit != 0 && (at = bytes.find(separator, begin)) != std::string::npos;
             --limit) {
            parts.push_back({begin, at});
            begin = at + separator.size();
        }
        parts.push_back({begin, bytes.size()});
        return parts;
    }
    size_t end = bytes.size();
    while (limit != 0 && end >= separator.size()) {
        const size_t at = bytes.rfind(separator, end - separator.size());
        if (at == std::string::npos) break;
        parts.push_back({at + separator.size(), end});
        end = at;
        --limit;
    }
    parts.push_back({0, end});
    std::ranges::reverse(parts);
    return parts;
}

Value split(Machine& m, const Value& self, Args& args, bool from_right) {
    const auto bound = bind(args, "split", {"sep", "maxsplit"});
    const int64_t limit = bound[1].is_missing() ? -1 : index_argument(bound[1], "maxsplit");
    const Text& text = self.text();
    m.step_bytes(text.bytes.size());
    std::vector<Span> parts;
    if (!given(bound[0])) {
        parts = split_spaces(text.bytes, limit, from_right);
    } else {
        const std::string& separator = text_argument(bound[0], "split").bytes;
        if (separator.empty()) fail("empty separator");
        m.step_search(text.bytes, separator);
        parts = split_by(text.bytes, separator, limit, from_right);
    }
    std::vector<Value> items;
    items.reserve(parts.size());
    for (const Span& part : parts) items.push_back(m.string(text.slice(part.begin, part.end)));
    return m.list(std::move(items));
}
Value split_left(Machine& m, const Value& s, Args& a) {
    return split(m, s, a, false);
}
Value split_right(Machine& m, const Value& s, Args& a) {
    return split(m, s, a, true);
}

Value partition(Machine& m, const Value& self, Args& args, bool from_right) {
    const auto bound = positional(args, "partition", {"sep"}, 1);
    const Text& separator = text_argument(bound[0], "partition");
    if (separator.bytes.empty()) fail("empty separator");
    const Text& text = self.text();
    m.step_search(text.bytes, separator.bytes);
    const size_t at =
        from_right ? text.bytes.rfind(separator.bytes) : text.bytes.find(separator.bytes);
    if (at == std::string::npos) {
        const Value none = m.string("");
        return from_right ? m.tuple({none, none, self}) : m.tuple({self, none, none});
    }
    const size_t behind = at + separator.bytes.size();
    return m.tuple({m.string(text.slice(0, at)), m.string(text.slice(at, behind)),
                    m.string(text.slice(behind, text.bytes.size()))});
}
Value partition_left(Machine& m, const Value& s, Args& a) {
    return partition(m, s, a, false);
}
Value partition_right(Machine& m, const Value& s, Args& a) {
    return partition(m, s, a, true);
}

Value split_lines_method(Machine& m, const Value& self, Args& args) {
    const auto bound = bind(args, "splitlines", {"keepends"});
    std::vector<Value> lines;
    for (Text& line : split_lines(self.text(), !bound[0].is_missing() && truthy(bound[0])))
        lines.push_back(m.string(std::move(line)));
    return m.list(std::move(lines));
}

Value replace(Machine& m, const Value& self, Args& args) {
    const auto bound = positional(args, "replace", {"old", "new", "count"}, 2);
    const int64_t limit = bound[2].is_missing() ? -1 : index_argument(bound[2], "count");
    const Text& with = text_argument(bound[1], "replace");
    const bool escape = self.text().markup && !with.markup;
    return m.string(replace_text(m, self.text(), text_argument(bound[0], "replace"),
                                 escape ? escape_html(with) : with, limit));
}

Value join(Machine& m, const Value& self, Args& args) {
    const auto bound = positional(args, "join", {"iterable"}, 1);
    Text out;
    const bool markup = self.text().markup;
    bool any = false;
    const auto source = iterate(m, bound[0]);
    for (Value item; source->next(m, item); any = true) {
        m.step_bytes(512);
        if (any) out.append(self.text());
        const Text& text = text_argument(item, "join");
        out.append(markup && !text.markup ? escape_html(text) : text);
        if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    }
    out.markup = markup;
    return m.string(std::move(out));
}

Value remove_affix(Machine& m, const Value& self, Args& args, bool at_end) {
    const auto bound = positional(args, "removeprefix", {"affix"}, 1);
    const std::string& affix = text_argument(bound[0], "removeprefix").bytes;
    const Text& text = self.text();
    const size_t size = text.bytes.size();
    if (at_end ? !text.bytes.ends_with(affix) : !text.bytes.starts_with(affix)) return self;
    return m.string(at_end ? text.slice(0, size - affix.size()) : text.slice(affix.size(), size));
}
Value remove_prefix(Machine& m, const Value& s, Args& a) {
    return remove_affix(m, s, a, false);
}
Value remove_suffix(Machine& m, const Value& s, Args& a) {
    return remove_affix(m, s, a, true);
}

Value pad(Machine& m, const Value& self, int64_t left, int64_t right, const Text& fill) {
    const int64_t most = static_cast<int64_t>(kMaxStringBytes);
    if (left > most || right > most) fail("string is too long: limit of 16 MiB");
    Text out;
    for (int64_t i = 0; i < left; ++i) out.append(fill);
    out.append(self.text());
    for (int64_t i = 0; i < right; ++i) out.append(fill);
    out.markup = self.text().markup;
    return m.string(std::move(out));
}

Value justify(Machine& m, const Value& self, Args& args, int where) {
    const auto bound = positional(args, "justify", {"width", "fillchar"}, 1);
    Text fill;
    fill.bytes = " ";
    if (!bound[1].is_missing()) fill = text_argument(bound[1], "justify");
    if (count_code_points(fill.bytes) != 1) fail("the fill must be one character");
    const int64_t width = index_argument(bound[0], "width");
    const int64_t size = *length_of(m, self);
    if (width <= size) return self;
    const int64_t room = width - size;
    if (where < 0) return pad(m, self, 0, room, fill);
    if (where > 0) return pad(m, self, room, 0, fill);
    const int64_t left = room / 2 + (room & width & 1);
    return pad(m, self, left, room - left, fill);
}
Value pad_left(Machine& m, const Value& s, Args& a) {
    return justify(m, s, a, 1);
}
Value pad_right(Machine& m, const Value& s, Args& a) {
    return justify(m, s, a, -1);
}
Value pad_both(Machine& m, const Value& s, Args& a) {
    return justify(m, s, a, 0);
}

Value zero_fill(Machine& m, const Value& self, Args& args) {
    const auto bound = positional(args, "zfill", {"width"}, 1);
    const int64_t room = index_argument(bound[0], "width") - *length_of(m, self);
    if (room <= 0) return self;
    const std::string& bytes = self.text().bytes;
    const size_t sign = !bytes.empty() && (bytes[0] == '+' || bytes[0] == '-') ? 1 : 0;
    if (room > static_cast<int64_t>(kMaxStringBytes)) fail("string is too long: limit of 16 MiB");
    Text out = self.text().slice(0, sign);
    out.append(std::string(static_cast<size_t>(room), '0'), false);
    out.append(self.text(), sign, bytes.size());
    return m.string(std::move(out));
}

Value expand_tabs(Machine& m, const Value& self, Args& args) {
    const auto bound = bind(args, "expandtabs", {"tabsize"});
    const int64_t size = bound[0].is_missing() ? 8 : index_argument(bound[0], "tabsize");
    if (size > 4096) fail("tabsize is too large");
    std::vector<Letter> out;
    int64_t column = 0;
    for (const Letter& letter : letters(self.text())) {
        if (letter.code == '\t') {
            const int64_t room = size > 0 ? size - column % size : 0;
            out.insert(out.end(), static_cast<size_t>(room), {U' ', letter.user});
            column += room;
        } else {
            out.push_back(letter);
            column = letter.code == '\n' || letter.code == '\r' ? 0 : column + 1;
        }
        if (out.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    }
    return m.string(from_letters(out));
}

template <bool (*check)(std::string_view)>
Value whole(Machine& m, const Value& self, Args& args) {
    bind(args, "method", {});
    m.step_bytes(self.text().bytes.size());
    return Value::boolean(check(self.text().bytes));
}

template <class Check>
bool every(std::string_view bytes, const Check& check) {
    for (size_t at = 0; at < bytes.size();) {
        if (!check(next_code_point(bytes, at))) return false;
    }
    return !bytes.empty();
}

utf8proc_category_t category(char32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
bool alpha(char32_t c) {
    const auto k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}
bool decimal(char32_t c) {
    return category(c) == UTF8PROC_CATEGORY_ND;
}
bool digit(char32_t c) {
    return decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}
bool numeric(char32_t c) {
    return decimal(c) || category(c) == UTF8PROC_CATEGORY_NL || category(c) == UTF8PROC_CATEGORY_NO;
}
bool all_alpha(std::string_view s) {
    return every(s, alpha);
}
bool all_decimal(std::string_view s) {
    return every(s, decimal);
}
bool all_digit(std::string_view s) {
    return every(s, digit);
}
bool all_numeric(std::string_view s) {
    return every(s, numeric);
}
bool all_alnum(std::string_view s) {
    return every(s, [](char32_t c) { return alpha(c) || numeric(c); });
}
bool all_space(std::string_view s) {
    return every(s, is_space);
}
bool all_ascii(std::string_view s) {
    return s.empty() || every(s, [](char32_t c) { return c < 0x80; });
}
bool all_printable(std::string_view s) {
    return s.empty() || every(s, [](char32_t c) {
               switch (category(c)) {
                   case UTF8PROC_CATEGORY_CC:
                   case UTF8PROC_CATEGORY_CF:
                   case UTF8PROC_CATEGORY_CO:
                   case UTF8PROC_CATEGORY_CN:
                   case UTF8PROC_CATEGORY_ZL:
                   case UTF8PROC_CATEGORY_ZP:
                       return false;
                   case UTF8PROC_CATEGORY_ZS:
                       return c == ' ';
                   default:
                       return true;
               }
           });
}

Value format(Machine& m, const Value& self, Args& args) {
    if (self.text().markup) fail("format() of a string marked safe is not supported");
    return m.string(format_braces(m, self.text(), args));
}

}  // namespace

Text replace_text(Machine& machine, const Text& text, const Text& from, const Text& to,
                  int64_t count) {
    machine.step_search(text.bytes, from.bytes);
    Text out;
    out.markup = text.markup;
    size_t done = 0;
    const auto put = [&](size_t upto) {
        out.append(text, done, upto);
        done = upto;
        if (out.bytes.size() + to.bytes.size() > kMaxStringBytes)
            fail("string is too long: limit of 16 MiB");
    };
    if (from.bytes.empty()) {
        // Before every character and at the end.
        for (size_t at = 0; count != 0; --count) {
            put(at);
            out.append(to);
            if (at >= text.bytes.size()) break;
            next_code_point(text.bytes, at);
        }
    } else {
        for (size_t at = 0;
             count != 0 && (at = text.bytes.find(from.bytes, at)) != std::string::npos; --count) {
            put(at);
            out.append(to);
            at = done = at + from.bytes.size();
        }
    }
    put(text.bytes.size());
    return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
    const auto ends_line = [](char32_t c) {
        return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
               c == 0x2029;
    };
    std::vector<Text> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.bytes.size();) {
        const size_t before = at;
        const char32_t code = next_code_point(text.bytes, at);
        if (!ends_line(code)) continue;
        if (code == '\r' && at < text.bytes.size() && text.bytes[at] == '\n') ++at;
        lines.push_back(text.slice(begin, keep_ends ? at : before));
        begin = at;
    }
    if (begin < text.bytes.size()) lines.push_back(text.slice(begin, text.bytes.size()));
    return lines;
}

int64_t count_words(std::string_view bytes) {
    int64_t words = 0;
    bool inside = false;
    for (size_t at = 0; at < bytes.size();) {
        const char32_t code = next_code_point(bytes, at);
        const bool word = code == '_' || alpha(code) || numeric(code);
        words += word && !inside;
        inside = word;
    }
    return words;
}

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
    if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
    const Span keep = stripped(text, true, true, "", true);
    text = text.substr(keep.begin, keep.end - keep.begin);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    if (text.size() > 1 && text[0] == '0') {
        const char mark = static_cast<char>(text[1] | 0x20);
        const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        if (marked && (base == 0 || base == marked)) {
            base = marked;
            text.remove_prefix(2);
            if (text.starts_with('_')) text.remove_prefix(1);
        } else if (base == 0 && text.find_first_not_of("0_") != std::string_view::npos) {
            return std::nullopt;
        }
    }
    if (base == 0) base = 10;
    if (text.empty() || text.front() == '_' || text.back() == '_') return std::nullopt;
    int64_t value = 0;
    bool overflow = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '_') {
            if (text[i - 1] == '_') return std::nullopt;
            continue;
        }
        const char low = static_cast<char>(c | 0x20);
        const int64_t digit = c >= '0' && c <= '9'       ? c - '0'
                              : low >= 'a' && low <= 'z' ? low - 'a' + 10
                                                         : 99;
        if (digit >= base) return std::nullopt;
        overflow |= __builtin_mul_overflow(value, base, &value);
        overflow |= negative ? __builtin_sub_overflow(value, digit, &value)
                             : __builtin_add_overflow(value, digit, &value);
    }
    if (overflow) fail("integer result does not fit 64 bits");
    return value;
}

std::optional<double> parse_real(std::string_view text) {
    const Span keep = stripped(text, true, true, "", true);
    const std::string_view body = text.substr(keep.begin, keep.end - keep.begin);
    std::string plain;
    for (size_t i = 0; i < body.size(); ++i) {
        const auto digit_at = [&](size_t k) {
            return k < body.size() && body[k] >= '0' && body[k] <= '9';
        };
        if (body[i] == '_') {
            if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1)) return std::nullopt;
            continue;
        }
        plain += body[i] >= 'A' && body[i] <= 'Z' ? static_cast<char>(body[i] | 0x20) : body[i];
    }
    std::string_view digits = plain;
    if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
    const bool named = digits == "inf" || digits == "infinity" || digits == "nan";
    if (!named &&
        (digits.empty() || digits.find_first_not_of("0123456789.e+-") != std::string_view::npos))
        return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(plain.c_str(), &end);
    if (end != plain.c_str() + plain.size()) return std::nullopt;
    return value;
}

const std::unordered_map<std::string_view, Method>& string_methods() {
    static const std::unordered_map<std::string_view, Method> kMethods = {
        {"capitalize", change_case<to_capitalized>},
        {"casefold", change_case<case_fold>},
        {"center", pad_both},
        {"count", count},
        {"endswith", ends_with},
        {"expandtabs", expand_tabs},
        {"find", find_left},
        {"format", format},
        {"index", index_left},
        {"isalnum", whole<all_alnum>},
        {"isalpha", whole<all_alpha>},
        {"isascii", whole<all_ascii>},
        {"isdecimal", whole<all_decimal>},
        {"isdigit", whole<all_digit>},
        {"islower", whole<is_lower>},
        {"isnumeric", whole<all_numeric>},
        {"isprintable", whole<all_printable>},
        {"isspace", whole<all_space>},
        {"istitle", whole<is_title>},
        {"isupper", whole<is_upper>},
        {"join", join},
        {"ljust", pad_right},
        {"lower", change_case<to_lower>},
        {"lstrip", strip_left},
        {"partition", partition_left},
        {"removeprefix", remove_prefix},
        {"removesuffix", remove_suffix},
        {"replace", replace},
        {"rfind", find_right},
        {"rindex", index_right},
        {"rjust", pad_left},
        {"rpartition", partition_right},
        {"rsplit", split_right},
        {"rstrip", strip_right},
        {"split", split_left},
        {"splitlines", split_lines_method},
        {"startswith", starts_with},
        {"strip", strip_both},
        {"swapcase", change_case<swap_case>},
        {"title", change_case<to_title>},
        {"upper", change_case<to_upper>},
        {"zfill", zero_fill},
    };
    return kMethods;
}

}  // namespace bifocal::jinja
