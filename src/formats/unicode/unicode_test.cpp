// UTF-8 by the standard's tables; categories, normal forms and lower case against goldens.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/testing/golden_hash.h"
#include "formats/unicode/category.h"
#include "formats/unicode/normalize.h"
#include "formats/unicode/utf8.h"

namespace bifocal::unicode {
namespace {

size_t replaced(std::string_view bytes) {
    const std::string text = replace_invalid(bytes);
    size_t count = 0;
    for (size_t at = text.find(kReplacement); at != std::string::npos; ++count) {
        at = text.find(kReplacement, at + 3);
    }
    return count;
}

TEST(Utf8, ReplacesMaximalIllFormedParts) {
    EXPECT_EQ(replaced("\xE2\x82"), 1u);
    EXPECT_EQ(replaced("\xF0\x9F\x98"), 1u);
    EXPECT_EQ(replaced("\xED\xA0\x80"), 3u);
    EXPECT_EQ(replaced("\xC0\x80"), 2u);
    EXPECT_EQ(replaced("\xF4\x90\x80\x80"), 4u);
    EXPECT_EQ(replaced("\xFF"), 1u);
    EXPECT_EQ(replace_invalid("a\xE2\x82z"), "a\xEF\xBF\xBDz");
    EXPECT_EQ(replace_invalid("\xE2\x82\xAC"), "\xE2\x82\xAC");
}

TEST(Utf8, FindsTheFirstInvalidByte) {
    EXPECT_EQ(find_invalid(""), std::string_view::npos);
    EXPECT_EQ(find_invalid("abc\xC3\xA9"), std::string_view::npos);
    EXPECT_EQ(find_invalid("ab\x80"), 2u);
    EXPECT_EQ(find_invalid("\xC3\xA9\xC3"), 2u);
}

TEST(Utf8, EveryCodePointComesBack) {
    for (char32_t c = 0; c < 0x110000; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        std::string text;
        append(text, c);
        ASSERT_TRUE(is_valid(text)) << static_cast<uint32_t>(c);
        ASSERT_EQ(decode(text, 0).code_point, c);
        ASSERT_EQ(decode_before("x" + text, text.size() + 1).code_point, c);
    }
}

TEST(Category, Samples) {
    EXPECT_EQ(category('A'), Category::Lu);
    EXPECT_EQ(category(0x1C5), Category::Lt);
    EXPECT_EQ(category(0x295), Category::Ll);  // Lo from Unicode 17 on
    EXPECT_EQ(category(0x301), Category::Mn);
    EXPECT_EQ(category(0x1C89), Category::Lu);  // new in Unicode 16
    EXPECT_EQ(category(0x378), Category::Cn);
    EXPECT_EQ(category('\n'), Category::space_control);
    EXPECT_TRUE(is_space(0x3000));
    EXPECT_FALSE(is_space(0x180E));
    EXPECT_FALSE(is_space(0x1C));
    EXPECT_TRUE(is_digit(0x11DE0));  // new in Unicode 17
    EXPECT_FALSE(category_bit(0x11DE0) & kNumber);
    int spaces = 0;
    for (char32_t c = 0; c < 0x110000; ++c) spaces += is_space(c) ? 1 : 0;
    EXPECT_EQ(spaces, 25);
}

// Every assigned code point, against the PyPI package tokenizers
// (tools/golden/tokenizer_unicode.py).
TEST(Normalize, EqualsReference) {
    std::ifstream file(BIFOCAL_SOURCE_DIR "/tests/golden/tokenizer/unicode.json");
    const auto golden = nlohmann::json::parse(file);
    const auto block = golden["block"].get<char32_t>();
    const auto check = [&](const char* name, auto step) {
        for (size_t i = 0; i < golden["begins"].size(); ++i) {
            const auto begin = golden["begins"][i].get<char32_t>();
            GoldenHash hash;
            for (char32_t c = begin; c < begin + block; ++c) {
                if (c >= 0xD800 && c < 0xE000) continue;
                std::string one, among = "a";
                append(one, c);
                append(among, c);
                among += "\xCC\x81\xCC\x96\xCC\xB4";
                append(among, c);
                hash.add(step(one));
                hash.add(step(among));
            }
            EXPECT_EQ(hash.hex(), golden[name][i].get<std::string>())
                << name << " from code point " << static_cast<uint32_t>(begin);
        }
    };
    check("nfc", [](const std::string& s) { return normalize(s, Form::nfc); });
    check("nfd", [](const std::string& s) { return normalize(s, Form::nfd); });
    check("nfkc", [](const std::string& s) { return normalize(s, Form::nfkc); });
    check("nfkd", [](const std::string& s) { return normalize(s, Form::nfkd); });
    check("lowercase", [](const std::string& s) { return lowercase(s); });
}

}  // namespace
}  // namespace bifocal::unicode
