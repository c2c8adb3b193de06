// The scanners follow the alternatives of the patterns in order; where a pattern backtracks, the
// comment says what the backtracking amounts to.
#include "formats/tokenizer/scanner.h"

#include <array>

#include "formats/unicode/category.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

using unicode::Category;
using unicode::kLetter;
using unicode::kMark;
using unicode::kNumber;
using unicode::kSpace;

constexpr size_t kNone = static_cast<size_t>(-1);

// Letters of a word by case: what may stand in its upper part and in its lower part.
constexpr uint32_t kEither = unicode::bit(Category::Lm) | unicode::bit(Category::Lo) | kMark;
constexpr uint32_t kUpper = unicode::bit(Category::Lu) | unicode::bit(Category::Lt) | kEither;
constexpr uint32_t kLower = unicode::bit(Category::Ll) | kEither;

struct Char {
    char32_t c = 0;
    uint32_t category = 0;  // one bit; 0 at the end of the text
    int bytes = 0;

    bool in(uint32_t set) const { return (category & set) != 0; }
    bool is_newline() const { return c == '\r' || c == '\n'; }
};

struct Text {
    std::string_view text;

    Char at(size_t i) const {
        if (i >= text.size()) return {};
        const unicode::Decoded d = unicode::decode(text, i);
        return {d.code_point, unicode::category_bit(d.code_point), d.bytes};
    }
    // End of the run of characters of `set` from `i`.
    size_t run(size_t i, uint32_t set) const {
        for (Char c = at(i); c.in(set); c = at(i)) i += c.bytes;
        return i;
    }
    size_t run_newlines(size_t i, bool slash_too) const {
        while (i < text.size() &&
               (text[i] == '\r' || text[i] == '\n' || (slash_too && text[i] == '/'))) {
            ++i;
        }
        return i;
    }
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d) or its case-sensitive form; kNone when it does not stand at `i`.
size_t contraction(const Text& t, size_t i, bool any_case) {
    if (i + 1 >= t.text.size() || t.text[i] != '\'') return kNone;
    const auto letter = [&](size_t j) -> char {
        if (j >= t.text.size()) return 0;
        const char c = t.text[j];
        return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(i + 1), second = letter(i + 2);
    switch (first) {
        case 's':
        case 't':
        case 'm':
        case 'd':
            return i + 2;
        case 'r':
        case 'v':
            return second == 'e' ? i + 3 : kNone;
        case 'l':
            return second == 'l' ? i + 3 : kNone;
        default:
            break;
    }
    // U+017F, the long s, is another case of s.
    if (any_case && t.text.substr(i + 1, 2) == "\xC5\xBF") return i + 3;
    return kNone;
}

// \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows it, unless it is
// the last of the text or there is only one.
size_t spaces(const Text& t, size_t i) {
    const size_t end = t.run(i, kSpace);
    if (end == t.text.size()) return end;
    const size_t last = end - unicode::decode_before(t.text, end).bytes;
    return last > i ? last : end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : a run with newlines ends behind its last newline.
size_t spaces_or_lines(const Text& t, size_t i) {
    size_t after_newline = kNone;
    size_t end = i;
    for (Char c = t.at(end); c.in(kSpace); c = t.at(end)) {
        end += c.bytes;
        if (c.is_newline()) after_newline = end;
    }
    return after_newline != kNone ? after_newline : spaces(t, i);
}

size_t gpt2(const Text& t, size_t i) {
    if (const size_t end = contraction(t, i, false); end != kNone) return end;
    const Char first = t.at(i);
    const size_t body = first.c == ' ' ? i + 1 : i;
    const Char c = first.c == ' ' ? t.at(body) : first;
    if (c.in(kLetter)) return t.run(body, kLetter);
    if (c.in(kNumber)) return t.run(body, kNumber);
    if (c.category != 0 && !c.in(kSpace)) return t.run(body, ~(kSpace | kLetter | kNumber));
    return spaces(t, i);
}

size_t digits(const Text& t, size_t i, int most) {
    for (Char c = t.at(i); most > 0 && c.in(kNumber); c = t.at(i), --most) i += c.bytes;
    return i;
}

// What LLAMA3 and its relatives share behind their word alternatives.
size_t rest(const Text& t, size_t i, const Char& first, int digit_run, uint32_t not_symbol,
            bool slash_too) {
    if (first.in(kNumber)) return digits(t, i, digit_run);
    const size_t body = first.c == ' ' ? i + 1 : i;
    const Char c = first.c == ' ' ? t.at(body) : first;
    if (c.category != 0 && !c.in(not_symbol)) {
        return t.run_newlines(t.run(body, ~not_symbol), slash_too);
    }
    return spaces_or_lines(t, i);
}

// [^\r\n\p{L}\p{N}]?[word]+ and the rest. When `first` may itself be part of a word (a mark),
// taking it as the optional prefix or as the word's beginning gives the same piece.
size_t llama3(const Text& t, size_t i, uint32_t word, int digit_run) {
    if (const size_t end = contraction(t, i, true); end != kNone) return end;
    const Char first = t.at(i);
    if (first.in(word)) return t.run(i, word);
    if (!first.is_newline() && !first.in(kNumber) && t.at(i + first.bytes).in(word)) {
        return t.run(i + first.bytes, word);
    }
    return rest(t, i, first, digit_run, kSpace | kNumber | word, false);
}

// [upper]*[lower]+ at `i`, or kNone. When no lower-only letter follows the greedy upper part, it
// gives back letters down to the last one that counts as both.
size_t upper_then_lower(const Text& t, size_t i) {
    size_t last_either = kNone;
    size_t end = i;
    Char c = t.at(end);
    for (; c.in(kUpper); c = t.at(end)) {
        end += c.bytes;
        if (c.in(kEither)) last_either = end;
    }
    if (c.in(kLower)) return t.run(end, kLower);
    return last_either;
}

size_t o200k_word(const Text& t, size_t i, const Char& first) {
    const bool prefix = !first.is_newline() && !first.in(kLetter | kNumber);
    const size_t body = prefix ? i + first.bytes : i;
    if (const size_t end = upper_then_lower(t, body); end != kNone) return end;
    // A mark that served as prefix can be the word itself.
    if (prefix && first.in(kLower)) return upper_then_lower(t, i);
    const size_t end = t.run(body, kUpper);
    return end > body ? end : kNone;
}

size_t o200k(const Text& t, size_t i, bool suffix, int digit_run) {
    const Char first = t.at(i);
    if (size_t end = o200k_word(t, i, first); end != kNone) {
        const size_t more = suffix ? contraction(t, end, true) : kNone;
        return more != kNone ? more : end;
    }
    return rest(t, i, first, digit_run, kSpace | kLetter | kNumber, true);
}

#define BIFOCAL_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BIFOCAL_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define BIFOCAL_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BIFOCAL_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define BIFOCAL_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr std::array<std::string_view, 6> kPatterns = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    BIFOCAL_CONTRACTION "|" BIFOCAL_PREFIX
                        "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BIFOCAL_SPACES,
    BIFOCAL_CONTRACTION "|" BIFOCAL_PREFIX
                        "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BIFOCAL_SPACES,
    BIFOCAL_CONTRACTION
    "|" BIFOCAL_PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" BIFOCAL_SPACES,
    BIFOCAL_PREFIX BIFOCAL_UPPER
    "*" BIFOCAL_LOWER "+" BIFOCAL_CONTRACTION "?|" BIFOCAL_PREFIX BIFOCAL_UPPER "+" BIFOCAL_LOWER
    "*" BIFOCAL_CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BIFOCAL_SPACES,
    BIFOCAL_PREFIX BIFOCAL_UPPER "*" BIFOCAL_LOWER "+|" BIFOCAL_PREFIX BIFOCAL_UPPER
                                 "+" BIFOCAL_LOWER
                                 "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BIFOCAL_SPACES,
};
#undef BIFOCAL_CONTRACTION
#undef BIFOCAL_UPPER
#undef BIFOCAL_LOWER
#undef BIFOCAL_PREFIX
#undef BIFOCAL_SPACES

}  // namespace

std::string_view family_pattern(Family family) {
    return kPatterns[static_cast<size_t>(family)];
}

std::optional<Family> family_of_pattern(std::string_view pattern) {
    for (size_t i = 0; i < kPatterns.size(); ++i) {
        if (kPatterns[i] == pattern) return static_cast<Family>(i);
    }
    return std::nullopt;
}

size_t scan_piece(Family family, std::string_view text, size_t at) {
    const Text t{text};
    switch (family) {
        case Family::gpt2:
            return gpt2(t, at);
        case Family::llama3:
            return llama3(t, at, kLetter, 3);
        case Family::qwen2:
            return llama3(t, at, kLetter, 1);
        case Family::qwen35:
            return llama3(t, at, kLetter | kMark, 1);
        case Family::o200k:
            return o200k(t, at, true, 3);
        case Family::tekken:
            return o200k(t, at, false, 1);
    }
    return text.size();
}

}  // namespace bifocal::tokenizer
