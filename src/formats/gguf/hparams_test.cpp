// Checks between the sizes that a model states, and between them and its tensors: G20 and G22 of
// the list that gguf_checks_test.cpp begins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "formats/gguf/file.h"
#include "formats/gguf/hparams.h"
#include "formats/gguf/writer.h"

namespace bifocal::gguf {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

template <class T>
std::string message_of(const Result<T>& result) {
    return result.ok() ? "no error" : result.error().message();
}

// A small llama with every size that check_hparams reads.
struct Hyper {
    std::map<std::string, double> numbers{
        {"llama.block_count", 2},          {"llama.context_length", 64},
        {"llama.embedding_length", 24},    {"llama.feed_forward_length", 48},
        {"llama.attention.head_count", 6}, {"llama.attention.head_count_kv", 3},
        {"llama.rope.dimension_count", 4}, {"llama.vocab_size", 5},
    };
    std::map<std::string, float> floats{{"llama.attention.layer_norm_rms_epsilon", 1e-5f},
                                        {"llama.rope.freq_base", 10000.0f}};
    size_t n_tokens = 5;
    int64_t embedding_rows = 5;

    std::string check() const {
        const auto result = read();
        return result.ok() ? "fine" : result.error().message();
    }
    Result<Hparams> read() const {
        Writer writer;
        writer.add_string("general.architecture", "llama");
        for (const auto& [key, value] : numbers) {
            writer.add_i32(key, static_cast<int32_t>(value));
        }
        for (const auto& [key, value] : floats) writer.add_f32(key, value);
        writer.add_string_array("tokenizer.ggml.tokens", std::vector<std::string>(n_tokens, "x"));
        writer.add_tensor("token_embd.weight", DType::f32, {embedding_rows, 24},
                          Bytes(static_cast<size_t>(embedding_rows) * 24 * 4));
        const Bytes bytes = writer.bytes();
        BIFOCAL_TRY(const File file, File::open_bytes(bytes, "llama.gguf"));
        return check_hparams(file);
    }
    Hyper with(const std::string& key, double value) const {
        Hyper copy = *this;
        copy.numbers[key] = value;
        return copy;
    }
    Hyper without(const std::string& key) const {
        Hyper copy = *this;
        copy.numbers.erase(key);
        copy.floats.erase(key);
        return copy;
    }
    Hyper with_float(const std::string& key, float value) const {
        Hyper copy = *this;
        copy.floats[key] = value;
        return copy;
    }
};

TEST(GgufChecksOfSizes, G20_sizes_fit_one_another) {
    const Hyper good;
    const auto h = good.read();
    ASSERT_TRUE(h.ok()) << h.error().message();
    EXPECT_EQ(h->block_count, 2);
    EXPECT_EQ(h->key_length, 4);
    EXPECT_EQ(h->head_count_kv, (std::vector<int64_t>{3, 3}));

    EXPECT_THAT(good.with("llama.attention.head_count", 0).check(),
                HasSubstr("in [1, 65536], got 0"));
    EXPECT_THAT(good.with("llama.attention.head_count", -6).check(), HasSubstr("out of range"));
    EXPECT_THAT(good.with("llama.attention.head_count", 9).check(), HasSubstr("do not divide"));
    EXPECT_THAT(good.with("llama.embedding_length", 25).check(),
                HasSubstr("heads do not divide the embedding"));
    EXPECT_EQ(good.with("llama.embedding_length", 25)
                  .with("llama.attention.key_length", 4)
                  .with("llama.attention.value_length", 4)
                  .check(),
              "fine");
    EXPECT_THAT(good.with("llama.attention.head_count_kv", 4).check(), HasSubstr("do not divide"));
    EXPECT_THAT(good.with("llama.attention.head_count_kv", 0).check(), HasSubstr("out of range"));
    EXPECT_EQ(good.without("llama.attention.head_count_kv").check(), "fine");
    EXPECT_THAT(good.with("llama.block_count", 0).check(), HasSubstr("out of range"));
    EXPECT_THAT(good.with("llama.block_count", 1025).check(), HasSubstr("out of range"));
    EXPECT_THAT(good.with("llama.rope.dimension_count", 3).check(), HasSubstr("pairs"));
    EXPECT_THAT(good.with("llama.rope.dimension_count", 6).check(), HasSubstr("in [2, 4]"));
    for (float wrong : {0.0f, -1.0f, std::nanf(""), INFINITY}) {
        EXPECT_THAT(good.with_float("llama.attention.layer_norm_rms_epsilon", wrong).check(),
                    HasSubstr("epsilon"));
        EXPECT_THAT(good.with_float("llama.rope.freq_base", wrong).check(), HasSubstr("freq_base"));
    }
    EXPECT_THAT(good.without("llama.attention.layer_norm_rms_epsilon").check(),
                HasSubstr("missing"));
    EXPECT_EQ(good.without("llama.rope.freq_base").read()->rope_freq_base, 10000.0f);
    EXPECT_THAT(good.with("llama.attention.sliding_window", -1).check(), HasSubstr("out of range"));
    EXPECT_EQ(good.with("llama.attention.sliding_window", 1).read()->sliding_window, 1);
    EXPECT_EQ(good.with("llama.attention.sliding_window", 0).read()->sliding_window, std::nullopt);
    EXPECT_THAT(good.with("llama.expert_count", 4).with("llama.expert_used_count", 5).check(),
                HasSubstr("in [0, 4]"));
    EXPECT_THAT(good.with("llama.ssm.conv_kernel", 0).check(), HasSubstr("in [1, 16]"));
    EXPECT_THAT(good.with("llama.ssm.conv_kernel", 17).check(), HasSubstr("in [1, 16]"));
    EXPECT_THAT(good.with("llama.vocab_size", 6).check(), HasSubstr("does not fit its tensor"));
    Hyper tokens = good;
    tokens.n_tokens = 6;
    EXPECT_THAT(tokens.check(), HasSubstr("impossible number of tokens"));
    tokens.n_tokens = 4;  // a padded embedding
    EXPECT_EQ(tokens.check(), "fine");
    for (const char* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                            "llama.feed_forward_length", "llama.attention.head_count"}) {
        EXPECT_THAT(good.without(key).check(), HasSubstr("missing")) << key;
    }
}

TEST(GgufChecksOfSizes, G22_tensors_are_there_with_their_shape) {
    Writer writer;
    writer.add_tensor("w", DType::f32, {2, 3}, Bytes(24));
    const Bytes bytes = writer.bytes();
    const auto file = File::open_bytes(bytes, "shape.gguf");
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(tensor_of_shape(*file, "w", {2, 3}).ok());
    EXPECT_THAT(message_of(tensor_of_shape(*file, "w", {3, 2})),
                HasSubstr("expected [3, 2], got [2, 3]"));
    EXPECT_THAT(message_of(tensor_of_shape(*file, "w", {6})), HasSubstr("unexpected shape"));
    EXPECT_THAT(message_of(tensor_of_shape(*file, "v", {2, 3})),
                HasSubstr("tensor 'v': the tensor is missing"));
}

}  // namespace
}  // namespace bifocal::gguf
