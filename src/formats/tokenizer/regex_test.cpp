// The rewriting of Ruby's syntax, what is refused, and matching.
#include "formats/tokenizer/regex.h"

#include <gtest/gtest.h>

#include "formats/tokenizer/pattern.h"

namespace bifocal::tokenizer {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
    std::vector<std::string> out;
    auto regex = Regex::compile(pattern, "test");
    EXPECT_TRUE(regex) << regex.error().message();
    if (!regex) return out;
    EXPECT_TRUE(regex->for_each(text, [&](size_t begin, size_t end) {
        out.emplace_back(text.substr(begin, end - begin));
    }));
    return out;
}

using Texts = std::vector<std::string>;

TEST(Regex, WhiteSpaceIsUnicodes) {
    EXPECT_EQ(matches("\\s+", "a \xC2\x85\xE3\x80\x80z"), (Texts{" \xC2\x85\xE3\x80\x80"}));
    EXPECT_EQ(matches("\\s", "\xE1\xA0\x8E"), Texts{});  // U+180E
    EXPECT_EQ(matches("[^\\S\\n]", "a \n"), Texts{" "});
    EXPECT_EQ(matches("\\S+", "ab \xC3\xA9"), (Texts{"ab", "\xC3\xA9"}));
}

TEST(Regex, PlusBehindAnIntervalRepeatsIt) {
    EXPECT_EQ(matches("\\d{1,3}+", "1234567"), Texts{"1234567"});
    EXPECT_EQ(matches("(?:ab){2}+", "abababab"), Texts{"abababab"});
    EXPECT_EQ(matches("\\d{1,3}", "1234567"), (Texts{"123", "456", "7"}));
    EXPECT_EQ(matches("a++b", "aab"), Texts{"aab"});
}

TEST(Regex, KnowsLettersNewerThanItsEngine) {
    EXPECT_EQ(matches("\\p{L}+",
                      "a\xE1\xB2\x89"
                      "b"),
              Texts{"a\xE1\xB2\x89"
                    "b"});  // U+1C89
    EXPECT_EQ(matches("\\P{L}+", "\xE1\xB2\x89"), Texts{});
    EXPECT_EQ(matches("[^\\p{L}]+", "\xE1\xB2\x89!"), Texts{"!"});
}

TEST(Regex, ScriptsAreNotExtended) {
    EXPECT_EQ(matches("\\p{Han}", "\xE3\x80\x81\xE4\xB8\xAD"), Texts{"\xE4\xB8\xAD"});
}

TEST(Regex, EmptyMatchesAdvance) {
    EXPECT_EQ(matches("x*", "axb"), (Texts{"", "x", ""}));  // none directly behind x
    EXPECT_EQ(matches("$", "a\nb").size(), 2u);
}

TEST(Regex, RefusesWhatMeansSomethingElse) {
    for (const char* pattern :
         {"(*UTF)a", "(?R)",   "(?1)",   "(?C1)",  "(?(1)a|b)",    "\\h",    "\\R",
          "\\X",     "\\C",    "\\K",    "\\1",    "\\g<1>",       "\\k<n>", "(?<n>a)",
          "a(?i)b",  "(?s:.)", "[a[b]]", "[a&&b]", "[[:alpha:]]",  "[]",     "[a",
          "(a",      "a)",     "\\",     "{,3}",   "x{2",          "\\u12",  "\\x{110000000}",
          "\\p{L1}", "\\pL",   "[\\b]",  "(?#x)",  "\\p{Nonsense}"}) {
        auto regex = Regex::compile(pattern, "test");
        ASSERT_FALSE(regex) << pattern;
        EXPECT_NE(regex.error().message().find("test"), std::string::npos) << pattern;
    }
    EXPECT_FALSE(Regex::compile(std::string(20000, 'a'), "test"));
}

TEST(Regex, RunawayMatchingIsAnError) {
    auto regex = Regex::compile("(?:a+)+(?:a+)+[bd]", "test");
    ASSERT_TRUE(regex);
    const Status status = regex->for_each(std::string(400, 'a') + "c", [](size_t, size_t) {});
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message().find("gave up"), std::string::npos);
}

std::string cut(Behavior behavior, std::string_view text) {
    auto spans = divide(Pattern::from_literal("-"), text);
    EXPECT_TRUE(spans);
    apply_behavior(*spans, behavior);
    std::string out;
    for (const Span& span : *spans) {
        out += text.substr(span.begin, span.end - span.begin);
        out += '|';
    }
    return out;
}

TEST(Behavior, CutsAndJoins) {
    EXPECT_EQ(cut(Behavior::isolated, "the-final--countdown"), "the|-|final|-|-|countdown|");
    EXPECT_EQ(cut(Behavior::removed, "the-final--countdown"), "the|final|countdown|");
    EXPECT_EQ(cut(Behavior::merged_with_previous, "the-final--countdown"),
              "the-|final-|-|countdown|");
    EXPECT_EQ(cut(Behavior::merged_with_next, "the-final--countdown"), "the|-final|-|-countdown|");
    EXPECT_EQ(cut(Behavior::contiguous, "the-final--countdown"), "the|-|final|--|countdown|");
}

}  // namespace
}  // namespace bifocal::tokenizer
