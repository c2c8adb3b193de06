#include "formats/template/unicode_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace bifocal::jinja {
namespace {

// Letters whose upper or title form is longer than one code point (Unicode's SpecialCasing).
struct Special {
    char32_t code;
    std::array<char32_t, 3> upper, title;
};
constexpr Special kSpecial[] = {
    // clang-format off
    {0xdf, {0x53, 0x53}, {0x53, 0x73}},
    {0x149, {0x2bc, 0x4e}, {0x2bc, 0x4e}},
    {0x1f0, {0x4a, 0x30c}, {0x4a, 0x30c}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0x1e96, {0x48, 0x331}, {0x48, 0x331}},
    {0x1e97, {0x54, 0x308}, {0x54, 0x308}},
    {0x1e98, {0x57, 0x30a}, {0x57, 0x30a}},
    {0x1e99, {0x59, 0x30a}, {0x59, 0x30a}},
    {0x1e9a, {0x41, 0x2be}, {0x41, 0x2be}},
    {0x1f50, {0x3a5, 0x313}, {0x3a5, 0x313}},
    {0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}},
    {0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399}, {0x1f88}},
    {0x1f81, {0x1f09, 0x399}, {0x1f89}},
    {0x1f82, {0x1f0a, 0x399}, {0x1f8a}},
    {0x1f83, {0x1f0b, 0x399}, {0x1f8b}},
    {0x1f84, {0x1f0c, 0x399}, {0x1f8c}},
    {0x1f85, {0x1f0d, 0x399}, {0x1f8d}},
    {0x1f86, {0x1f0e, 0x399}, {0x1f8e}},
    {0x1f87, {0x1f0f, 0x399}, {0x1f8f}},
    {0x1f88, {0x1f08, 0x399}, {0x1f88}},
    {0x1f89, {0x1f09, 0x399}, {0x1f89}},
    {0x1f8a, {0x1f0a, 0x399}, {0x1f8a}},
    {0x1f8b, {0x1f0b, 0x399}, {0x1f8b}},
    {0x1f8c, {0x1f0c, 0x399}, {0x1f8c}},
    {0x1f8d, {0x1f0d, 0x399}, {0x1f8d}},
    {0x1f8e, {0x1f0e, 0x399}, {0x1f8e}},
    {0x1f8f, {0x1f0f, 0x399}, {0x1f8f}},
    {0x1f90, {0x1f28, 0x399}, {0x1f98}},
    {0x1f91, {0x1f29, 0x399}, {0x1f99}},
    {0x1f92, {0x1f2a, 0x399}, {0x1f9a}},
    {0x1f93, {0x1f2b, 0x399}, {0x1f9b}},
    {0x1f94, {0x1f2c, 0x399}, {0x1f9c}},
    {0x1f95, {0x1f2d, 0x399}, {0x1f9d}},
    {0x1f96, {0x1f2e, 0x399}, {0x1f9e}},
    {0x1f97, {0x1f2f, 0x399}, {0x1f9f}},
    {0x1f98, {0x1f28, 0x399}, {0x1f98}},
    {0x1f99, {0x1f29, 0x399}, {0x1f99}},
    {0x1f9a, {0x1f2a, 0x399}, {0x1f9a}},
    {0x1f9b, {0x1f2b, 0x399}, {0x1f9b}},
    {0x1f9c, {0x1f2c, 0x399}, {0x1f9c}},
    {0x1f9d, {0x1f2d, 0x399}, {0x1f9d}},
    {0x1f9e, {0x1f2e, 0x399}, {0x1f9e}},
    {0x1f9f, {0x1f2f, 0x399}, {0x1f9f}},
    {0x1fa0, {0x1f68, 0x399}, {0x1fa8}},
    {0x1fa1, {0x1f69, 0x399}, {0x1fa9}},
    {0x1fa2, {0x1f6a, 0x399}, {0x1faa}},
    {0x1fa3, {0x1f6b, 0x399}, {0x1fab}},
    {0x1fa4, {0x1f6c, 0x399}, {0x1fac}},
    {0x1fa5, {0x1f6d, 0x399}, {0x1fad}},
    {0x1fa6, {0x1f6e, 0x399}, {0x1fae}},
    {0x1fa7, {0x1f6f, 0x399}, {0x1faf}},
    {0x1fa8, {0x1f68, 0x399}, {0x1fa8}},
    {0x1fa9, {0x1f69, 0x399}, {0x1fa9}},
    {0x1faa, {0x1f6a, 0x399}, {0x1faa}},
    {0x1fab, {0x1f6b, 0x399}, {0x1fab}},
    {0x1fac, {0x1f6c, 0x399}, {0x1fac}},
    {0x1fad, {0x1f6d, 0x399}, {0x1fad}},
    {0x1fae, {0x1f6e, 0x399}, {0x1fae}},
    {0x1faf, {0x1f6f, 0x399}, {0x1faf}},
    {0x1fb2, {0x1fba, 0x399}, {0x1fba, 0x345}},
    {0x1fb3, {0x391, 0x399}, {0x1fbc}},
    {0x1fb4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1fb6, {0x391, 0x342}, {0x391, 0x342}},
    {0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1fbc, {0x391, 0x399}, {0x1fbc}},
    {0x1fc2, {0x1fca, 0x399}, {0x1fca, 0x345}},
    {0x1fc3, {0x397, 0x399}, {0x1fcc}},
    {0x1fc4, {0x389, 0x399}, {0x389, 0x345}},
    {0x1fc6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1fcc, {0x397, 0x399}, {0x1fcc}},
    {0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342}, {0x399, 0x342}},
    {0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}},
    {0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313}, {0x3a1, 0x313}},
    {0x1fe6, {0x3a5, 0x342}, {0x3a5, 0x342}},
    {0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}},
    {0x1ff2, {0x1ffa, 0x399}, {0x1ffa, 0x345}},
    {0x1ff3, {0x3a9, 0x399}, {0x1ffc}},
    {0x1ff4, {0x38f, 0x399}, {0x38f, 0x345}},
    {0x1ff6, {0x3a9, 0x342}, {0x3a9, 0x342}},
    {0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}},
    {0x1ffc, {0x3a9, 0x399}, {0x1ffc}},
    {0xfb00, {0x46, 0x46}, {0x46, 0x66}},
    {0xfb01, {0x46, 0x49}, {0x46, 0x69}},
    {0xfb02, {0x46, 0x4c}, {0x46, 0x6c}},
    {0xfb03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xfb04, {0x46, 0x46, 0x4c}, {0x46, 0x66, 0x6c}},
    {0xfb05, {0x53, 0x54}, {0x53, 0x74}},
    {0xfb06, {0x53, 0x54}, {0x53, 0x74}},
    {0xfb13, {0x544, 0x546}, {0x544, 0x576}},
    {0xfb14, {0x544, 0x535}, {0x544, 0x565}},
    {0xfb15, {0x544, 0x53b}, {0x544, 0x56b}},
    {0xfb16, {0x54e, 0x546}, {0x54e, 0x576}},
    {0xfb17, {0x544, 0x53d}, {0x544, 0x56d}},
    // clang-format on
};

const Special* special(char32_t code) {
    const auto at = std::lower_bound(std::begin(kSpecial), std::end(kSpecial), code,
                                     [](const Special& s, char32_t c) { return s.code < c; });
    return at != std::end(kSpecial) && at->code == code ? at : nullptr;
}

utf8proc_category_t category(char32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
char32_t simple_upper(char32_t code) {
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t simple_lower(char32_t code) {
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}
char32_t simple_title(char32_t code) {
    return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
}

bool lower_letter(char32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LL;
}
bool upper_letter(char32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LU;
}
bool title_letter(char32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LT;
}
bool cased(char32_t code) {
    return lower_letter(code) || upper_letter(code) || title_letter(code) ||
           simple_upper(code) != code || simple_lower(code) != code;
}

// Marks and signs inside a word that its case does not depend on.
bool case_ignorable(char32_t code) {
    switch (category(code)) {
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_SK:
            return true;
        default:
            return code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2018 ||
                   code == 0x2019;
    }
}

using Letters = std::vector<Letter>;

void put_upper(Letters& out, Letter letter) {
    if (const Special* s = special(letter.code)) {
        for (const char32_t code : s->upper) {
            if (code) out.push_back({code, letter.user});
        }
    } else {
        out.push_back({simple_upper(letter.code), letter.user});
    }
}

void put_title(Letters& out, Letter letter) {
    if (const Special* s = special(letter.code)) {
        for (const char32_t code : s->title) {
            if (code) out.push_back({code, letter.user});
        }
    } else {
        out.push_back({simple_title(letter.code), letter.user});
    }
}

// A sigma that ends a word has a form of its own.
bool ends_word(const Letters& all, size_t at) {
    size_t before = at;
    while (before > 0 && case_ignorable(all[before - 1].code)) --before;
    if (before == 0 || !cased(all[before - 1].code)) return false;
    size_t after = at + 1;
    while (after < all.size() && case_ignorable(all[after].code)) ++after;
    return after == all.size() || !cased(all[after].code);
}

void put_lower(Letters& out, const Letters& all, size_t at) {
    const Letter letter = all[at];
    if (letter.code == 0x3a3) {
        out.push_back({ends_word(all, at) ? U'\u03c2' : U'\u03c3', letter.user});
    } else if (letter.code == 0x130) {
        out.push_back({'i', letter.user});
        out.push_back({0x307, letter.user});
    } else {
        out.push_back({simple_lower(letter.code), letter.user});
    }
}

template <class Put>
Text map(const Text& text, const Put& put) {
    const Letters all = letters(text);
    Letters out;
    out.reserve(all.size());
    for (size_t i = 0; i < all.size(); ++i) put(out, all, i);
    Text result = from_letters(out);
    result.markup = text.markup;
    return result;
}

Letters decode(std::string_view bytes) {
    Text text;
    text.bytes = bytes;
    return letters(text);
}

}  // namespace

Text to_upper(const Text& text) {
    return map(text, [](Letters& out, const Letters& all, size_t i) { put_upper(out, all[i]); });
}

Text to_lower(const Text& text) {
    return map(text, put_lower);
}

Text to_capitalized(const Text& text) {
    return map(text, [](Letters& out, const Letters& all, size_t i) {
        i == 0 ? put_title(out, all[i]) : put_lower(out, all, i);
    });
}

Text to_title(const Text& text) {
    bool in_word = false;
    return map(text, [&](Letters& out, const Letters& all, size_t i) {
        in_word ? put_lower(out, all, i) : put_title(out, all[i]);
        in_word = cased(all[i].code);
    });
}

Text swap_case(const Text& text) {
    return map(text, [](Letters& out, const Letters& all, size_t i) {
        if (upper_letter(all[i].code)) {
            put_lower(out, all, i);
        } else if (lower_letter(all[i].code)) {
            put_upper(out, all[i]);
        } else {
            out.push_back(all[i]);
        }
    });
}

Text case_fold(const Text& text) {
    return map(text, [](Letters& out, const Letters& all, size_t i) {
        utf8proc_int32_t folded[8];
        int boundary = 0;
        const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(all[i].code),
                                                   folded, 8, UTF8PROC_CASEFOLD, &boundary);
        for (utf8proc_ssize_t k = 0; k < std::min<utf8proc_ssize_t>(count, 8); ++k)
            out.push_back({static_cast<char32_t>(folded[k]), all[i].user});
    });
}

bool is_lower(std::string_view bytes) {
    bool any = false;
    for (const Letter& letter : decode(bytes)) {
        if (upper_letter(letter.code) || title_letter(letter.code)) return false;
        any |= lower_letter(letter.code);
    }
    return any;
}

bool is_upper(std::string_view bytes) {
    bool any = false;
    for (const Letter& letter : decode(bytes)) {
        if (lower_letter(letter.code) || title_letter(letter.code)) return false;
        any |= upper_letter(letter.code);
    }
    return any;
}

bool is_title(std::string_view bytes) {
    bool any = false, in_word = false;
    for (const Letter& letter : decode(bytes)) {
        if (upper_letter(letter.code) || title_letter(letter.code)) {
            if (in_word) return false;
            in_word = any = true;
        } else if (lower_letter(letter.code)) {
            if (!in_word) return false;
            any = true;
        } else {
            in_word = false;
        }
    }
    return any;
}

}  // namespace bifocal::jinja
