// The hand-written scanners against PCRE2 running the families' own patterns.
#include "formats/tokenizer/scanner.h"

#include "formats/tokenizer/golden_test_support.h"
#include "formats/tokenizer/pattern.h"

namespace bifocal::tokenizer {
namespace {

using Ends = std::vector<size_t>;

Ends scanned(Family family, std::string_view text) {
    Ends ends;
    for (size_t at = 0; at < text.size();) ends.push_back(at = scan_piece(family, text, at));
    return ends;
}

Ends matched(const Regex& regex, std::string_view text) {
    Ends ends;
    const Status status = regex.for_each(text, [&](size_t begin, size_t end) {
        EXPECT_EQ(begin, ends.empty() ? 0 : ends.back());
        ends.push_back(end);
    });
    EXPECT_TRUE(status) << status.error().message();
    return ends;
}

class Scanner : public testing::TestWithParam<Family> {};

TEST_P(Scanner, EqualsItsPattern) {
    const Family family = GetParam();
    auto regex = Regex::compile(family_pattern(family), "test");
    ASSERT_TRUE(regex) << regex.error().message();
    const auto corpus = read_golden("corpus.json");
    const auto atoms = corpus["atoms"].get<std::vector<std::string>>();
    for (const auto& text : corpus["cases"]) {
        ASSERT_EQ(scanned(family, text.get<std::string>()),
                  matched(*regex, text.get<std::string>()))
            << text;
    }
    for (uint64_t i = 100000; i < 105000; ++i) {
        const std::string text = generated(i, atoms);
        ASSERT_EQ(scanned(family, text), matched(*regex, text)) << i << ": " << text;
    }
}

// Each code point of the planes with letters, in several neighbourhoods.
TEST_P(Scanner, EveryCodePointEqualsItsPattern) {
    const Family family = GetParam();
    auto regex = Regex::compile(family_pattern(family), "test");
    ASSERT_TRUE(regex) << regex.error().message();
    std::string text;
    for (char32_t c = 0; c < 0x1F000; ++c) {
        if (c >= 0x3500 && c < 0xA000) c = 0xA000;  // ideographs, all alike
        if (c >= 0xAD00 && c < 0xF800) c = 0xF800;  // Hangul, surrogates, private use
        for (const char* around : {"aB", " 1", "'s", "\n!"}) {
            text += around;
            unicode::append(text, c);
        }
        if (c % 64 != 63) continue;
        ASSERT_EQ(scanned(family, text), matched(*regex, text)) << static_cast<uint32_t>(c);
        text.clear();
    }
}

INSTANTIATE_TEST_SUITE_P(Families, Scanner,
                         testing::Values(Family::gpt2, Family::llama3, Family::qwen2,
                                         Family::qwen35, Family::o200k, Family::tekken));

TEST(ScannerChoice, IsByTheExactPattern) {
    for (const Family family : {Family::gpt2, Family::llama3, Family::tekken}) {
        EXPECT_EQ(family_of_pattern(family_pattern(family)), family);
    }
    EXPECT_FALSE(family_of_pattern(std::string(family_pattern(Family::gpt2)) + " "));
}

}  // namespace
}  // namespace bifocal::tokenizer
