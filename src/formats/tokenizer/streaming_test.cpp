// Token-by-token decoding: the same text as at once, whole characters only.
#include <cstring>

#include "formats/tokenizer/golden_test_support.h"

namespace bifocal::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer load(const std::string& family) {
    auto tokenizer = Tokenizer::from_json_file(golden_path(family + "_tokenizer.json"));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message();
    return std::move(*tokenizer);
}

std::string stream(StreamingDecoder& decoder, const Ids& ids) {
    std::string out;
    for (const int32_t id : ids) {
        const std::string piece = decoder.push(id);
        EXPECT_TRUE(unicode::is_valid(piece));
        EXPECT_LE(decoder.state().pending.size(), 3u);
        out += piece;
    }
    const std::string rest = decoder.flush();
    EXPECT_TRUE(unicode::is_valid(rest));
    return out + rest;
}

class Streaming : public testing::TestWithParam<const char*> {};

TEST_P(Streaming, EqualsDecodingAtOnce) {
    const Tokenizer tokenizer = load(GetParam());
    const auto corpus = read_golden("corpus.json");
    const auto atoms = corpus["atoms"].get<std::vector<std::string>>();
    for (uint64_t i = 0; i < 3000; ++i) {
        const std::string text = i < corpus["cases"].size() ? corpus["cases"][i].get<std::string>()
                                                            : generated(i, atoms);
        const Ids ids = *tokenizer.encode(text);
        for (const bool skip : {false, true}) {
            StreamingDecoder decoder(tokenizer, false, skip);
            ASSERT_EQ(stream(decoder, ids), *tokenizer.decode(ids, skip)) << text;
        }
    }
}

// Ids in any order: ill-formed bytes between and inside characters.
TEST_P(Streaming, RandomIdsGiveWholeCharacters) {
    const Tokenizer tokenizer = load(GetParam());
    const bool byte_runs = std::strncmp(GetParam(), "spm", 3) == 0;
    SplitMix rng(7);
    for (int round = 0; round < 2000; ++round) {
        Ids ids;
        for (int i = 0; i < 12; ++i) {
            ids.push_back(
                static_cast<int32_t>(rng.next() % static_cast<uint64_t>(tokenizer.vocab_size())));
        }
        StreamingDecoder decoder(tokenizer, false, false);
        const std::string streamed = stream(decoder, ids);
        const std::string whole = *tokenizer.decode(ids, false);
        // In a run of byte tokens, streaming keeps characters from before an ill-formed byte.
        if (!byte_runs || whole.find(unicode::kReplacement) == std::string::npos) {
            ASSERT_EQ(streamed, whole);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Families, Streaming,
                         testing::Values("gpt2", "llama3", "qwen2", "tekken", "spm_prepend",
                                         "spm_metaspace", "prefix"),
                         [](const auto& family) { return std::string(family.param); });

Ids byte_ids(const Tokenizer& tokenizer, std::initializer_list<int> bytes) {
    Ids ids;
    for (const int b : bytes) {
        char name[7];
        std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(b));
        ids.push_back(*tokenizer.id_of(name));
    }
    return ids;
}

TEST(StreamingBytes, NeverTakesBackAWholeCharacter) {
    const Tokenizer tokenizer = load("spm_prepend");
    const std::string bad(unicode::kReplacement);
    const Ids ids = byte_ids(tokenizer, {0xE2, 0x82, 0xAC, 0xE2});
    EXPECT_EQ(*tokenizer.decode(ids), bad + bad + bad + bad);
    StreamingDecoder decoder(tokenizer);
    EXPECT_EQ(decoder.push(ids[0]), "");
    EXPECT_EQ(decoder.push(ids[1]), "");
    EXPECT_EQ(decoder.push(ids[2]), "\xE2\x82\xAC");
    EXPECT_EQ(decoder.push(ids[3]), "");
    EXPECT_EQ(decoder.flush(), bad);
    EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamingSpace, OnlyTheStartOfATextIsStripped) {
    const Tokenizer tokenizer = load("spm_prepend");
    const Ids ids = *tokenizer.encode("the river", {.add_special = false});
    StreamingDecoder fresh(tokenizer);
    EXPECT_EQ(stream(fresh, ids), "the river");
    StreamingDecoder continued(tokenizer, true);
    EXPECT_EQ(stream(continued, ids), " the river");
}

TEST(StreamingState, CopiesGoOnByThemselves) {
    const Tokenizer tokenizer = load("gpt2");
    const Ids ids = *tokenizer.encode("\xF0\x9F\x98\x80!");
    ASSERT_GE(ids.size(), 3u);
    StreamingDecoder first(tokenizer);
    std::string text = first.push(ids[0]);
    text += first.push(ids[1]);
    StreamingDecoder second(tokenizer);
    second.set_state(first.state());
    std::string other = text;
    for (size_t i = 2; i < ids.size(); ++i) {
        text += first.push(ids[i]);
        other += second.push(ids[i]);
    }
    EXPECT_EQ(text, "\xF0\x9F\x98\x80!");
    EXPECT_EQ(other, text);
}

TEST(StreamingIds, OutsideTheVocabularyGiveNothing) {
    StreamingDecoder decoder(load("gpt2"));
    EXPECT_EQ(decoder.push(-1), "");
    EXPECT_EQ(decoder.push(1 << 20), "");
}

}  // namespace
}  // namespace bifocal::tokenizer
