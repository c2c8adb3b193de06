#include "formats/template/lexer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "formats/template/machine.h"
#include "formats/template/text.h"
#include "formats/unicode/utf8.h"

namespace bifocal::jinja {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_base_digit(char c, int base) {
    const int value = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    return value < base;
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    std::vector<Lexeme> run() {
        while (at_ < source_.size()) root();
        lexemes_.push_back({Token::end, "", 0, 0, source_.size()});
        return std::move(lexemes_);
    }

  private:
    [[noreturn]] void error(std::string what, size_t offset) const {
        throw Failure{std::move(what), offset};
    }

    bool starts_with(size_t at, std::string_view text) const {
        return at < source_.size() && source_.substr(at, text.size()) == text;
    }

    size_t skip_space(size_t at) const {
        while (at < source_.size()) {
            size_t next = at;
            if (!is_space(next_code_point(source_, next))) break;
            at = next;
        }
        return at;
    }

    // Where a tag end that begins at `at` leaves off: "-%}" eats white space, "%}" one newline.
    // npos if none begins there. `plus`: "+%}" is allowed and keeps the newline.
    size_t tag_end(size_t at, std::string_view close, bool plus, bool trim) const {
        if (starts_with(at, close)) {
            at += close.size();
            return trim && starts_with(at, "\n") ? at + 1 : at;
        }
        if (!starts_with(at + 1, close)) return std::string_view::npos;
        if (source_[at] == '-') return skip_space(at + 1 + close.size());
        if (plus && source_[at] == '+') return at + 1 + close.size();
        return std::string_view::npos;
    }

    // "{% raw %}" at `at`: position behind it, else npos.
    size_t raw_begin(size_t at, char sign) const {
        size_t pos = skip_space(at + 2 + (sign ? 1 : 0));
        if (!starts_with(pos, "raw")) return std::string_view::npos;
        pos = skip_space(pos + 3);
        return tag_end(pos, "%}", false, false);
    }

    void add(Token token, std::string text, size_t offset) {
        lexemes_.push_back({token, std::move(text), 0, 0, offset});
    }

    // Text before a tag, stripped as the tag's sign asks for.
    void add_data(size_t begin, size_t end, char sign, bool is_print) {
        std::string_view text = source_.substr(begin, end - begin);
        if (sign == '-') {
            text = text.substr(0, stripped(text, false, true, "", true).end);
        } else if (sign != '+' && !is_print) {
            const size_t newline = text.rfind('\n');
            const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
            const auto blank = text.substr(line);
            const bool at_line_start = line > 0 || line_starting_;
            if (at_line_start && !blank.empty() && skip_space(begin + line) >= end) {
                text = text.substr(0, line);
            }
        }
        if (!text.empty()) add(Token::data, std::string(text), begin);
    }

    void root() {
        const size_t begin = at_;
        size_t open = at_;
        for (;; ++open) {
            open = source_.find('{', open);
            if (open == std::string_view::npos || open + 1 >= source_.size()) {
                add(Token::data, std::string(source_.substr(begin)), begin);
                at_ = source_.size();
                return;
            }
            const char second = source_[open + 1];
            if (second == '{' || second == '%' || second == '#') break;
        }
        const char kind = source_[open + 1];
        char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
        if (sign != '-' && sign != '+') sign = '\0';
        add_data(begin, open, sign, kind == '{');
        line_starting_ = false;
        at_ = open + 2 + (sign ? 1 : 0);
        if (kind == '#') {
            comment(open);
        } else if (kind == '{') {
            add(Token::print_begin, "{{", open);
            tag(open, "}}");
        } else if (const size_t behind = raw_begin(open, sign); behind != std::string_view::npos) {
            line_starting_ = source_[behind - 1] == '\n';
            at_ = behind;
            raw(open);
        } else {
            add(Token::block_begin, "{%", open);
            tag(open, "%}");
        }
    }

    void comment(size_t open) {
        for (size_t at = at_; at < source_.size(); ++at) {
            const size_t behind = tag_end(at, "#}", true, true);
            if (behind == std::string_view::npos) continue;
            line_starting_ = source_[behind - 1] == '\n';
            at_ = behind;
            return;
        }
        error("comment is never closed", open);
    }

    void raw(size_t open) {
        const size_t begin = at_;
        for (size_t at = source_.find("{%", begin); at != std::string_view::npos;
             at = source_.find("{%", at + 1)) {
            char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
            if (sign != '-' && sign != '+') sign = '\0';
            size_t pos = skip_space(at + 2 + (sign ? 1 : 0));
            if (!starts_with(pos, "endraw")) continue;
            pos = skip_space(pos + 6);
            const size_t behind = tag_end(pos, "%}", true, true);
            if (behind == std::string_view::npos) continue;
            add_data(begin, at, sign, false);
            line_starting_ = source_[behind - 1] == '\n';
            at_ = behind;
            return;
        }
        error("'raw' is never closed by 'endraw'", open);
    }

    void tag(size_t open, std::string_view close) {
        const bool is_print = close == "}}";
        brackets_.clear();
        while (true) {
            if (at_ >= source_.size()) error("tag is never closed", open);
            if (brackets_.empty()) {
                const size_t behind = tag_end(at_, close, !is_print, !is_print);
                if (behind != std::string_view::npos) {
                    add(is_print ? Token::print_end : Token::block_end, std::string(close), at_);
                    line_starting_ = source_[behind - 1] == '\n';
                    at_ = behind;
                    return;
                }
            }
            const size_t behind = skip_space(at_);
            if (behind != at_) {
                at_ = behind;
                continue;
            }
            lexeme();
        }
    }

    void lexeme() {
        const char c = source_[at_];
        if (is_digit(c)) return number();
        if (c == '\'' || c == '"') return string(c);
        size_t next = at_;
        if (is_name_character(next_code_point(source_, next))) return name();
        static constexpr std::string_view kOperators[] = {
            "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
        for (const std::string_view op : kOperators) {
            if (!starts_with(at_, op)) continue;
            balance(op);
            add(Token::op, std::string(op), at_);
            at_ += op.size();
            return;
        }
        error(fmt::format("unexpected character '{}'", source_.substr(at_, next - at_)), at_);
    }

    void balance(std::string_view op) {
        if (op == "(" || op == "[" || op == "{") {
            brackets_ += op == "(" ? ')' : op == "[" ? ']' : '}';
        } else if (op == ")" || op == "]" || op == "}") {
            if (brackets_.empty()) error(fmt::format("unexpected '{}'", op), at_);
            if (brackets_.back() != op[0])
                error(fmt::format("unexpected '{}', expected '{}'", op, brackets_.back()), at_);
            brackets_.pop_back();
        }
    }

    void name() {
        const size_t begin = at_;
        while (at_ < source_.size()) {
            size_t next = at_;
            if (!is_name_character(next_code_point(source_, next))) break;
            at_ = next;
        }
        add(Token::name, std::string(source_.substr(begin, at_ - begin)), begin);
    }

    // Digits with single underscores between them: end of the run that begins at `at`.
    size_t digits(size_t at, int base) const {
        while (at < source_.size()) {
            if (is_base_digit(source_[at], base)) {
                ++at;
            } else if (source_[at] == '_' && at + 1 < source_.size() &&
                       is_base_digit(source_[at + 1], base)) {
                at += 2;
            } else {
                break;
            }
        }
        return at;
    }

    bool digit_at(size_t at) const { return at < source_.size() && is_digit(source_[at]); }

    void number() {
        const size_t begin = at_;
        const bool after_dot = begin > 0 && source_[begin - 1] == '.';
        if (!after_dot) {
            const size_t whole = digits(begin, 10);
            size_t end = whole;
            if (end < source_.size() && source_[end] == '.' && digit_at(end + 1))
                end = digits(end + 1, 10);
            size_t exponent = end;
            if (exponent < source_.size() && (source_[exponent] | 0x20) == 'e') {
                ++exponent;
                if (exponent < source_.size() &&
                    (source_[exponent] == '+' || source_[exponent] == '-'))
                    ++exponent;
                if (digit_at(exponent)) end = digits(exponent, 10);
            }
            if (end != whole) {
                std::string text(source_.substr(begin, end - begin));
                std::erase(text, '_');
                lexemes_.push_back({Token::real, "", 0, std::strtod(text.c_str(), nullptr), begin});
                at_ = end;
                return;
            }
        }
        int base = 10;
        size_t end = begin;
        if (source_[begin] == '0' && begin + 1 < source_.size()) {
            const char mark = static_cast<char>(source_[begin + 1] | 0x20);
            base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
            if (base != 10) {
                size_t first = begin + 2;
                if (first < source_.size() && source_[first] == '_') ++first;
                if (first < source_.size() && is_base_digit(source_[first], base)) {
                    end = digits(first, base);
                } else {
                    base = 10;
                }
            }
        }
        // A decimal that begins with 0 is a row of zeros; what follows is another token.
        if (base == 10) end = digits(begin, source_[begin] == '0' ? 1 : 10);
        std::string text(source_.substr(begin, end - begin));
        std::erase(text, '_');
        errno = 0;
        const long long value = std::strtoll(text.c_str() + (base == 10 ? 0 : 2), nullptr, base);
        if (errno != 0) error("integer does not fit 64 bits", begin);
        lexemes_.push_back({Token::integer, "", value, 0, begin});
        at_ = end;
    }

    void string(char quote) {
        const size_t begin = at_;
        size_t end = begin + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) error("string is never closed", begin);
        add(Token::string, unescape(begin + 1, end), begin);
        at_ = end + 1;
    }

    // The escapes of Python's string literals; unknown ones stay as they are.
    std::string unescape(size_t begin, size_t end) const {
        std::string out;
        for (size_t at = begin; at < end;) {
            if (source_[at] != '\\') {
                out += source_[at++];
                continue;
            }
            const char c = source_[at + 1];
            at += 2;
            static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
            if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
                out += kTo[i];
            } else if (c == '\n') {
                continue;
            } else if (c >= '0' && c <= '7') {
                char32_t code = static_cast<char32_t>(c - '0');
                for (int k = 0; k < 2 && at < end && is_base_digit(source_[at], 8); ++k)
                    code = code * 8 + static_cast<char32_t>(source_[at++] - '0');
                unicode::append(out, code);
            } else if (c == 'x' || c == 'u' || c == 'U') {
                unicode::append(out, hexadecimal(at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8));
            } else if (c == 'N') {
                error("\\N escapes are not supported", at - 2);
            } else {
                out += '\\';
                at -= 1;
            }
        }
        return out;
    }

    char32_t hexadecimal(size_t& at, size_t end, size_t count) const {
        char32_t code = 0;
        for (size_t k = 0; k < count; ++k, ++at) {
            if (at >= end || !is_base_digit(source_[at], 16)) error("truncated escape", at - k - 2);
            const char c = source_[at];
            code = code * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            error("escape names no character", at - count - 2);
        return code;
    }

    std::string_view source_;
    size_t at_ = 0;
    bool line_starting_ = true;
    std::string brackets_;  // closing ones that are due
    std::vector<Lexeme> lexemes_;
};

}  // namespace

bool is_name_character(char32_t code) {
    if (code < 0x80) {
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
               (code >= '0' && code <= '9') || code == '_';
    }
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
            return true;
        default:
            return false;
    }
}

std::string normalise_source(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
        } else {
            out += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

std::vector<Lexeme> tokenize(std::string_view source) {
    return Lexer(source).run();
}

}  // namespace bifocal::jinja
