// Vocabularies from GGUF metadata: against the same vocabulary as tokenizer.json, against
// sentencepiece, and what is refused.
#include <functional>

#include "formats/tokenizer/gguf_metadata.h"
#include "formats/tokenizer/golden_test_support.h"

namespace bifocal::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

// A byte-level tokenizer.json of the golden set as GGUF metadata would have it.
GgufVocab as_gguf(const std::string& family, const std::string& pre) {
    const auto json = read_golden(family + "_tokenizer.json");
    GgufVocab vocab;
    vocab.model = "gpt2";
    vocab.pre = pre;
    vocab.tokens.resize(json["model"]["vocab"].size() + json["added_tokens"].size());
    for (const auto& [token, id] : json["model"]["vocab"].items()) vocab.tokens[id] = token;
    vocab.token_type.assign(vocab.tokens.size(), 1);
    for (const auto& added : json["added_tokens"]) {
        vocab.tokens[added["id"]] = added["content"];
        vocab.token_type[added["id"]] = added["special"] ? 3 : 4;
    }
    for (const auto& merge : json["model"]["merges"]) {
        vocab.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                                 : merge[0].get<std::string>() + " " +
                                                       merge[1].get<std::string>());
    }
    return vocab;
}

TEST(GgufByteLevel, EqualsReference) {
    const std::pair<const char*, const char*> cases[] = {
        {"gpt2", "gpt-2"},    {"smollm", "smollm"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"},
        {"qwen35", "qwen35"}, {"o200k", "gpt-4o"},  {"tekken", "tekken"}};
    for (const auto& [family, pre] : cases) {
        SCOPED_TRACE(family);
        GgufVocab vocab = as_gguf(family, pre);
        const auto id_of = [&](const char* token) {
            return std::find(vocab.tokens.begin(), vocab.tokens.end(), token) -
                   vocab.tokens.begin();
        };
        if (vocab.pre == "llama-bpe") vocab.bos = id_of("<|begin_of_text|>");
        if (vocab.pre == "tekken") vocab.bos = id_of("<s>");
        auto tokenizer = Tokenizer::from_gguf(vocab, "test.gguf");
        ASSERT_TRUE(tokenizer) << tokenizer.error().message();
        EXPECT_TRUE(tokenizer->warnings().empty());
        compare_with_golden(*tokenizer, read_golden(std::string(family) + ".json"));
    }
}

GgufVocab sentence_piece(const nlohmann::json& golden) {
    GgufVocab vocab;
    vocab.model = "llama";
    vocab.tokens = golden["tokens"].get<std::vector<std::string>>();
    vocab.scores = golden["scores"].get<std::vector<float>>();
    vocab.token_type = golden["token_type"].get<std::vector<int32_t>>();
    vocab.unk = 0;
    vocab.bos = 1;
    vocab.eos = 2;
    return vocab;
}

TEST(GgufSentencePiece, EqualsReference) {
    const auto golden = read_golden("sentencepiece.json");
    auto tokenizer = Tokenizer::from_gguf(sentence_piece(golden), "test.gguf");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    const EncodeOptions plain{.add_special = false, .parse_special = false};
    const auto corpus = read_golden("corpus.json");
    for (size_t i = 0; i < golden["cases"].size(); ++i) {
        const auto text = corpus["cases"][i].get<std::string>();
        ASSERT_EQ(*tokenizer->encode(text, plain), golden["cases"][i].get<Ids>()) << i << text;
        EXPECT_EQ(*tokenizer->decode(*tokenizer->encode(text, plain)),
                  // A space marker in the text comes back as a space.
                  text.find("\xE2\x96\x81") == std::string::npos
                      ? text
                      : *tokenizer->decode(golden["cases"][i].get<Ids>()));
    }
    const auto atoms = corpus["atoms"].get<std::vector<std::string>>();
    size_t wrong = 0;
    for (uint64_t block = 0; block < 400; ++block) {
        GoldenHash hash;
        for (uint64_t i = block * 100; i < block * 100 + 100; ++i) {
            hash.add(*tokenizer->encode(generated(i, atoms), plain));
        }
        wrong += hash.hex() == golden["generated_ids"][block].get<std::string>() ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(tokenizer->encode("x")->front(), 1);
    EXPECT_TRUE(tokenizer->adds_bos());
    EXPECT_TRUE(tokenizer->is_stop(2));
}

TEST(GgufSentencePiece, WithoutASpacePrefix) {
    GgufVocab vocab = sentence_piece(read_golden("sentencepiece.json"));
    vocab.add_space_prefix = false;
    vocab.add_bos = false;
    vocab.add_eos = true;
    auto tokenizer = Tokenizer::from_gguf(vocab, "test.gguf");
    ASSERT_TRUE(tokenizer);
    const Ids ids = *tokenizer->encode("the");
    EXPECT_EQ(*tokenizer->decode(ids), "the");
    EXPECT_NE(tokenizer->token(ids[0]).substr(0, 3), "\xE2\x96\x81");
    EXPECT_EQ(ids.back(), 2);
}

TEST(Gguf, PrefersAWholeTokenizerJson) {
    std::ifstream file(golden_path("qwen2_tokenizer.json"));
    GgufVocab vocab = as_gguf("gpt2", "gpt-2");
    vocab.huggingface_json.assign(std::istreambuf_iterator<char>(file), {});
    vocab.eos = 3;
    auto tokenizer = Tokenizer::from_gguf(vocab, "test.gguf");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_TRUE(tokenizer->id_of("<tool_call>"));
    EXPECT_EQ(tokenizer->special().eos, 3);
    EXPECT_TRUE(tokenizer->is_stop(*tokenizer->id_of("<|im_end|>")));
}

TEST(Gguf, NfcCanBeSwitchedOff) {
    GgufVocab vocab = as_gguf("qwen2", "qwen2");
    auto with = Tokenizer::from_gguf(vocab, "test.gguf");
    vocab.nfc = false;
    auto without = Tokenizer::from_gguf(vocab, "test.gguf");
    const std::string text = "e\xCC\x81";
    EXPECT_EQ(*with->decode(*with->encode(text)), "\xC3\xA9");
    EXPECT_EQ(*without->decode(*without->encode(text)), text);
}

TEST(Gguf, WarnsWhenThePreTokenizerIsNotNamed) {
    auto tokenizer = Tokenizer::from_gguf(as_gguf("gpt2", "default"), "test.gguf");
    ASSERT_TRUE(tokenizer);
    EXPECT_EQ(tokenizer->warnings().size(), 1u);
}

TEST(Gguf, SaysWhatIsWrong) {
    struct Case {
        std::function<void(GgufVocab&)> damage;
        const char* message;
    };
    const Case cases[] = {
        {[](GgufVocab& v) { v.model = "bert"; }, "'bert'"},
        {[](GgufVocab& v) { v.pre = "mystery"; }, "'mystery'"},
        {[](GgufVocab& v) { v.tokens.clear(); }, "vocabulary size"},
        {[](GgufVocab& v) { v.token_type.pop_back(); }, "token_type: wrong length"},
        {[](GgufVocab& v) { v.token_type[3] = 7; }, "token_type[3]"},
        {[](GgufVocab& v) { v.scores.assign(3, 0.0f); }, "scores: wrong length"},
        {[](GgufVocab& v) { v.bos = static_cast<int64_t>(v.tokens.size()); }, "bos_token_id"},
        {[](GgufVocab& v) { v.eos = -5; }, "eos_token_id"},
        {[](GgufVocab& v) { v.eot = 1 << 30; }, "eot_token_id"},
        {[](GgufVocab& v) { v.merges[5] = "one"; }, "merges[5]"},
        {[](GgufVocab& v) { v.merges[6] = "qqqq zzzz"; }, "merges[6]"},
        {[](GgufVocab& v) { v.merges[7] = "e "; }, "merges[7]"},
        {[](GgufVocab& v) { v.tokens[9] = "\xFF"; }, "tokens[9]"},
        {[](GgufVocab& v) { v.model = "llama"; }, "tokenizer.ggml.scores"},
        {[](GgufVocab& v) {
             v.model = "llama";
             v.scores.assign(v.tokens.size(), 0.0f);
             v.scores[2] = std::numeric_limits<float>::quiet_NaN();
         },
         "scores[2]"},
        {[](GgufVocab& v) { v.huggingface_json = "{"; }, "tokenizer.huggingface.json"},
    };
    for (const Case& c : cases) {
        GgufVocab vocab = as_gguf("gpt2", "gpt-2");
        c.damage(vocab);
        auto tokenizer = Tokenizer::from_gguf(vocab, "test.gguf");
        ASSERT_FALSE(tokenizer) << c.message;
        EXPECT_NE(tokenizer.error().message().find(c.message), std::string::npos)
            << tokenizer.error().message();
    }
}

gguf::Value text(std::string value) {
    return {gguf::ValueType::string, 0, std::move(value)};
}
gguf::Value texts(std::vector<std::string_view> values) {
    gguf::Array array;
    array.element = gguf::ValueType::string;
    array.count = values.size();
    array.strings = std::move(values);
    return {gguf::ValueType::array, 0, std::move(array)};
}

TEST(GgufMetadata, IsReadByType) {
    gguf::Metadata metadata("m.gguf");
    metadata.add("tokenizer.ggml.model", text("gpt2"));
    metadata.add("tokenizer.ggml.pre", text("smollm"));
    metadata.add("tokenizer.ggml.tokens", texts({"a", "b", "ab"}));
    metadata.add("tokenizer.ggml.merges", texts({"a b"}));
    metadata.add("tokenizer.ggml.eos_token_id", {gguf::ValueType::u32, 0, uint64_t{2}});
    metadata.add("tokenizer.ggml.add_bos_token", {gguf::ValueType::boolean, 0, true});
    metadata.add("tokenizer.ggml.padding_token_id", {gguf::ValueType::i32, 0, int64_t{-1}});
    auto vocab = read_vocab(metadata);
    ASSERT_TRUE(vocab) << vocab.error().message();
    EXPECT_EQ(vocab->tokens.size(), 3u);
    EXPECT_EQ(vocab->eos, 2);
    EXPECT_EQ(vocab->add_bos, true);
    EXPECT_FALSE(vocab->pad);
    auto tokenizer = Tokenizer::from_gguf(*vocab, "m.gguf");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_EQ(*tokenizer->encode("ab"), Ids{2});
}

TEST(GgufMetadata, WrongTypesAreErrors) {
    const std::pair<const char*, gguf::Value> wrong[] = {
        {"tokenizer.ggml.model", {gguf::ValueType::u32, 0, uint64_t{1}}},
        {"tokenizer.ggml.tokens", text("a")},
        {"tokenizer.ggml.scores", texts({"1"})},
        {"tokenizer.ggml.token_type", texts({"1"})},
        {"tokenizer.ggml.merges", {gguf::ValueType::f32, 0, 1.0}},
        {"tokenizer.ggml.bos_token_id", text("1")},
        {"tokenizer.ggml.add_eos_token", {gguf::ValueType::u32, 0, uint64_t{1}}},
    };
    for (const auto& [key, value] : wrong) {
        gguf::Metadata metadata("m.gguf");
        metadata.add(key, value);
        metadata.add("tokenizer.ggml.model", text("gpt2"));
        metadata.add("tokenizer.ggml.tokens", texts({"a"}));
        auto vocab = read_vocab(metadata);
        ASSERT_FALSE(vocab) << key;
        EXPECT_NE(vocab.error().message().find(key), std::string::npos);
    }
}

constexpr const char* kModel = BIFOCAL_SOURCE_DIR "/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";

TEST(GgufModel, EqualsReference) {
    if (!std::ifstream(kModel)) GTEST_SKIP() << kModel << " is not there";
    auto tokenizer = load_tokenizer(std::string(kModel));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_FALSE(tokenizer->adds_bos());
    EXPECT_TRUE(tokenizer->is_stop(*tokenizer->id_of("<|im_end|>")));
    compare_with_golden(*tokenizer, read_golden("smollm2_gguf.json"));
}

TEST(LoadTokenizer, ChoosesByContent) {
    EXPECT_TRUE(load_tokenizer(golden_path("gpt2_tokenizer.json")));
    auto missing = load_tokenizer(std::string("/nonexistent.gguf"));
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message().find("/nonexistent.gguf"), std::string::npos);
}

}  // namespace
}  // namespace bifocal::tokenizer
