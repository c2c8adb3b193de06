// From Ruby's regular expressions to PCRE2's, over the subset that tokenizer files use:
//   \s \S     Unicode White_Space (PCRE2 would also match U+180E)
//   X{m,n}+   the interval repeated, not a possessive interval
//   \p{L}     with the letters of Unicode 16, where PCRE2 10.42 has 14
//   \p{Han}   the script itself, not its extensions
//   \uHHHH    a code point; \v the vertical tab alone
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "formats/tokenizer/regex.h"
#include "formats/unicode/category.h"

namespace bifocal::tokenizer {
namespace {

constexpr std::string_view kSpaceSet = "\\x{09}-\\x{0D}\\x{85}\\p{Z}";
constexpr std::string_view kNotSpaceSet =
    "\\x{00}-\\x{08}\\x{0E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{"
    "1FFF}"
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}"
    "\\x{3001}-\\x{10FFFF}";
constexpr std::array<std::string_view, 38> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Any"};

// By unicode::Category.
constexpr std::array<std::string_view, 31> kCategoryNames = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cc",
    "Cf", "Cs", "Co", "Cn", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"};

bool is_hex(char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// \p{name} with what PCRE2's Unicode lacks. Inside a class a complement cannot be told more, and
// stays as PCRE2 has it.
std::string category_set(std::string_view name, bool complement, bool in_class) {
    if (complement && in_class) return fmt::format("\\P{{{}}}", name);
    std::string set = fmt::format("\\p{{{}}}", name);
    for (int i = 0; i < unicode::kNewerRangeCount; ++i) {
        const unicode::NewerRange& range = unicode::kNewerRanges[i];
        if (!kCategoryNames[static_cast<size_t>(range.category)].starts_with(name)) continue;
        set += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", range.first, range.last);
    }
    if (in_class) return set;
    return (complement ? "[^" : "[") + set + "]";
}

class Translator {
  public:
    Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

    Result<std::string> run() {
        while (at_ < in_.size()) BIFOCAL_TRY_STATUS(item());
        return std::move(out_);
    }

  private:
    Error unsupported(std::string_view what, size_t bytes) const {
        return {.what = "unsupported construct in a regular expression",
                .where = where_,
                .expected = "groups, look-around, classes, \\s \\d \\w \\b \\p{..} and quantifiers",
                .got = std::string(what) + " '" + std::string(in_.substr(at_, bytes)) +
                       "' at byte " + std::to_string(at_)};
    }
    char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
    void copy(size_t n) {
        out_ += in_.substr(at_, n);
        at_ += n;
    }

    Status item() {
        const char c = peek();
        switch (c) {
            case '(':
                return open_group();
            case ')':
                // The whole group is what a quantifier behind it repeats.
                atom_ = groups_.empty() ? out_.size() : groups_.back();
                if (!groups_.empty()) groups_.pop_back();
                copy(1);
                return {};
            case '[':
                atom_ = out_.size();
                return char_class();
            case '\\':
                atom_ = out_.size();
                return escape(false);
            case '{':
                return interval();
            case '?':
            case '*':
            case '+':
                copy(1);
                return {};
            default:
                atom_ = out_.size();
                copy(1);
                while (at_ < in_.size() && (static_cast<unsigned char>(peek()) & 0xC0) == 0x80)
                    copy(1);
                return {};
        }
    }

    Status open_group() {
        groups_.push_back(out_.size());
        if (groups_.size() > 64) return unsupported("groups nested too deeply", 1);
        if (peek(1) == '*') return unsupported("verb", 3);
        if (peek(1) != '?') {
            copy(1);
            return {};
        }
        for (std::string_view head :
             {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"}) {
            if (in_.substr(at_, head.size()) == head) {
                copy(head.size());
                return {};
            }
        }
        // A switch for the whole pattern; elsewhere Ruby lets it reach over alternatives.
        if (at_ == 0 && in_.substr(0, 4) == "(?i)") {
            groups_.pop_back();
            copy(4);
            return {};
        }
        return unsupported("group", 4);
    }

    Status interval() {
        size_t end = 1;
        while (is_digit(peek(end))) ++end;
        if (end == 1) return unsupported("brace", 2);
        if (peek(end) == ',') ++end;
        while (is_digit(peek(end))) ++end;
        if (peek(end) != '}') return unsupported("brace", end);
        ++end;
        if (peek(end) != '+') {
            copy(end);
            return {};
        }
        out_.insert(atom_, "(?:");
        copy(end);
        out_ += ")+";
        ++at_;
        return {};
    }

    Status char_class() {
        copy(1);
        if (peek() == '^') copy(1);
        if (peek() == ']') return unsupported("empty class", 1);
        while (at_ < in_.size() && peek() != ']') {
            if (peek() == '[') return unsupported("nested class", 2);
            if (peek() == '&' && peek(1) == '&') return unsupported("class intersection", 2);
            if (peek() == '\\') {
                BIFOCAL_TRY_STATUS(escape(true));
            } else {
                copy(1);
            }
        }
        if (at_ == in_.size()) return unsupported("class without end", 0);
        copy(1);
        return {};
    }

    Status escape(bool in_class) {
        const char c = peek(1);
        const auto put = [&](std::string_view text) {
            out_ += text;
            at_ += 2;
            return Status{};
        };
        const auto put_set = [&](std::string_view set) {
            return put(in_class ? std::string(set) : "[" + std::string(set) + "]");
        };
        switch (c) {
            case 's':
                return put_set(kSpaceSet);
            case 'S':
                return put_set(kNotSpaceSet);
            case 'v':
                return put("\\x{0B}");
            case 'd':
            case 'D':
            case 'w':
            case 'W':
            case 'n':
            case 'r':
            case 't':
            case 'f':
                copy(2);
                return {};
            case 'b':
            case 'B':
            case 'A':
            case 'z':
                if (in_class) return unsupported("escape", 2);
                copy(2);
                return {};
            case 'p':
            case 'P':
                return property(in_class);
            case 'x':
            case 'u':
                return code_point(c);
            default:
                if (c == '\0' || (static_cast<unsigned char>(c) & 0x80) != 0 ||
                    std::isalnum(static_cast<unsigned char>(c)) != 0) {
                    return unsupported("escape", 2);
                }
                copy(2);
                return {};
        }
    }

    Status property(bool in_class) {
        const size_t close = in_.find('}', at_);
        if (peek(2) != '{' || close == std::string_view::npos) return unsupported("property", 2);
        std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
        const bool negated = name.starts_with('^');
        if (negated) name.remove_prefix(1);
        const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
            return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
        });
        if (name.empty() || !letters) return unsupported("property", close - at_ + 1);
        const auto category = std::find(kCategories.begin(), kCategories.end(), name);
        if (category == kCategories.end()) {
            out_ += fmt::format("{}{{{}sc:{}}}", in_.substr(at_, 2), negated ? "^" : "", name);
        } else {
            const bool complement = negated != (peek(1) == 'P');
            out_ += category_set(name, complement, in_class);
        }
        at_ = close + 1;
        return {};
    }

    Status code_point(char kind) {
        size_t begin = at_ + 2;
        const bool braces = kind == 'x' && peek(2) == '{';
        if (braces) ++begin;
        size_t end = begin;
        const size_t most = braces ? 6 : (kind == 'x' ? 2 : 4);
        while (end < in_.size() && end - begin < most && is_hex(in_[end])) ++end;
        const bool whole =
            braces ? end < in_.size() && in_[end] == '}' : kind == 'x' || end - begin == 4;
        if (end == begin || !whole) return unsupported("escape", 4);
        out_ += "\\x{";
        out_ += in_.substr(begin, end - begin);
        out_ += '}';
        at_ = braces ? end + 1 : end;
        return {};
    }

    std::string_view in_;
    const std::string& where_;
    size_t at_ = 0;
    std::string out_;
    size_t atom_ = 0;             // where the last atom begins in out_
    std::vector<size_t> groups_;  // where the open groups begin in out_
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern, const std::string& where) {
    return Translator(pattern, where).run();
}

}  // namespace bifocal::tokenizer
