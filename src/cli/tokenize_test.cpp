// `bifocal tokenize` without the command line: both directions, both forms of output.
#include "cli/tokenize.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace bifocal::cli {
namespace {

tokenizer::Tokenizer gpt2() {
    auto loaded = tokenizer::Tokenizer::from_json_file(
        BIFOCAL_SOURCE_DIR "/tests/golden/tokenizer/gpt2_tokenizer.json");
    EXPECT_TRUE(loaded) << loaded.error().message();
    return std::move(*loaded);
}

TEST(Tokenize, JsonHasIdsAndPieces) {
    const auto tokenizer = gpt2();
    auto out = tokenize(tokenizer, "the river\n", {.json = true});
    ASSERT_TRUE(out);
    const auto json = nlohmann::json::parse(*out);
    EXPECT_EQ(json["ids"].get<std::vector<int32_t>>(), *tokenizer.encode("the river\n"));
    std::string joined;
    for (const auto& piece : json["pieces"]) joined += piece.get<std::string>();
    EXPECT_EQ(joined, "the river\n");
    EXPECT_EQ(json["pieces"].size(), json["ids"].size());
}

TEST(Tokenize, DecodesWhatItPrints) {
    const auto tokenizer = gpt2();
    const std::string text = "caf\xC3\xA9 <|endoftext|> 12";
    auto out = tokenize(tokenizer, text, {.json = true});
    ASSERT_TRUE(out);
    EXPECT_EQ(*tokenize(tokenizer, *out, {.decode = true}), text + "\n");
    auto both = tokenize(tokenizer, *out, {.decode = true, .json = true});
    EXPECT_EQ(nlohmann::json::parse(*both)["text"], text);
}

TEST(Tokenize, LinesShowIdAndPiece) {
    auto out = tokenize(gpt2(), " the", {});
    ASSERT_TRUE(out);
    EXPECT_NE(out->find("\" the\"\n"), std::string::npos) << *out;
}

TEST(Tokenize, InvalidTextIsAnErrorWithItsOffset) {
    auto out = tokenize(gpt2(), "abc\xFF", {});
    ASSERT_FALSE(out);
    EXPECT_NE(out.error().message().find("byte 3"), std::string::npos);
}

TEST(Tokenize, ControlTokensAsTextOnRequest) {
    const auto tokenizer = gpt2();
    auto out = tokenize(tokenizer, "<|endoftext|>", {.json = true, .parse_special = false});
    EXPECT_GT(nlohmann::json::parse(*out)["ids"].size(), 1u);
}

TEST(ParseIds, TakesListsAndJson) {
    const std::vector<int32_t> ids{1, 22, 333};
    for (const char* text : {"1 22 333", "1,22,333\n", " 1, 22\t333 ", "[1,22,333]",
                             "[1, 22, 333]\n", R"({"ids": [1, 22, 333], "pieces": []})"}) {
        auto parsed = parse_ids(text);
        ASSERT_TRUE(parsed) << text;
        EXPECT_EQ(*parsed, ids);
    }
    EXPECT_TRUE(parse_ids("")->empty());
    for (const char* text : {"1 x", "-1", "1.5", "99999999999", "[1", "[-1]", "[1.5]", "[\"1\"]",
                             "{}", "[4294967296]"}) {
        EXPECT_FALSE(parse_ids(text)) << text;
    }
}

TEST(ParseIds, UnknownIdsAreNamed) {
    auto out = tokenize(gpt2(), "5 1000000", {.decode = true});
    ASSERT_FALSE(out);
    EXPECT_NE(out.error().message().find("1000000"), std::string::npos);
}

}  // namespace
}  // namespace bifocal::cli
