// Numbers in GGUF metadata that no model can have, one test each; and what the optional keys mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "formats/gguf/file.h"
#include "formats/gguf/writer.h"
#include "model/families/readers.h"

namespace bifocal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Numbers {
    std::string architecture = "llama";
    std::map<std::string, uint32_t> integers{
        {"block_count", 2},          {"context_length", 64},      {"embedding_length", 24},
        {"feed_forward_length", 40}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
        {"rope.dimension_count", 6}, {"vocab_size", 11},
    };
    std::map<std::string, float> floats{{"attention.layer_norm_rms_epsilon", 1e-5f},
                                        {"rope.freq_base", 10000.0f}};
    std::map<std::string, std::string> strings;
    std::vector<bool> window_pattern;
    Checkpoint checkpoint;
};

Result<ModelSpec> read(const Numbers& numbers, int64_t tokens = 0) {
    gguf::Writer writer;
    const auto key = [&](const std::string& name) { return numbers.architecture + "." + name; };
    writer.add_string("general.architecture", numbers.architecture);
    for (const auto& [name, value] : numbers.integers) writer.add_u32(key(name), value);
    for (const auto& [name, value] : numbers.floats) writer.add_f32(key(name), value);
    for (const auto& [name, value] : numbers.strings) writer.add_string(key(name), value);
    if (!numbers.window_pattern.empty())
        writer.add_bool_array(key("attention.sliding_window_pattern"), numbers.window_pattern);
    for (const auto& [name, tensor] : numbers.checkpoint.tensors)
        writer.add_tensor(name, tensor.dtype, tensor.shape, tensor.bytes);
    const std::vector<std::byte> bytes = writer.bytes();
    const gguf::File file = gguf::File::open_bytes(bytes, "m.gguf").value();
    const Family* family = family_of_gguf(numbers.architecture, "m.gguf").value();
    return spec_from_gguf(*family, file, numbers.checkpoint, tokens);
}

std::string message(const Numbers& numbers) {
    const Result<ModelSpec> spec = read(numbers);
    return spec.ok() ? "accepted" : spec.error().message();
}

std::string with(const std::string& key, uint32_t value) {
    Numbers numbers;
    numbers.integers[key] = value;
    return message(numbers);
}
std::string with(const std::string& key, float value) {
    Numbers numbers;
    numbers.floats[key] = value;
    return message(numbers);
}

TEST(GgufNumbers, TheBaseIsAccepted) {
    EXPECT_EQ(message({}), "accepted");
}

TEST(GgufNumbers, SizesOutOfRange) {
    for (const char* key : {"block_count", "embedding_length", "feed_forward_length",
                            "attention.head_count", "attention.head_count_kv", "context_length"})
        EXPECT_THAT(with(key, 0u), AllOf(HasSubstr("m.gguf"), HasSubstr(key))) << key;
    EXPECT_THAT(with("block_count", 1025u), HasSubstr("block_count"));
}

TEST(GgufNumbers, MissingKeys) {
    for (const char* key : {"block_count", "embedding_length", "context_length",
                            "feed_forward_length", "attention.head_count"}) {
        Numbers numbers;
        numbers.integers.erase(key);
        EXPECT_THAT(message(numbers), HasSubstr(key));
    }
}

TEST(GgufNumbers, HeadsMustDivide) {
    EXPECT_THAT(with("attention.head_count_kv", 3u), HasSubstr("divisor of 4, got 3"));
    Numbers numbers;
    numbers.integers["attention.head_count"] = numbers.integers["attention.head_count_kv"] = 5;
    EXPECT_THAT(message(numbers), AllOf(HasSubstr("divisor of 24"), HasSubstr("got 5")));
}

TEST(GgufNumbers, RotatedDimensions) {
    EXPECT_THAT(with("rope.dimension_count", 4u), HasSubstr("rope.dimension_count"));
    Numbers phi;
    phi.architecture = "phi3";
    phi.integers["rope.dimension_count"] = 4;
    EXPECT_EQ(message(phi), "accepted");
    EXPECT_EQ(read(phi)->layers[0].context.rope->rotary_dim, 4);
    phi.integers["rope.dimension_count"] = 3;
    EXPECT_THAT(message(phi), AllOf(HasSubstr("dimension_count"), HasSubstr("an even number")));
    phi.integers["rope.dimension_count"] = 8;
    EXPECT_THAT(message(phi), AllOf(HasSubstr("dimension_count"), HasSubstr("[2, 6]")));
}

TEST(GgufNumbers, FloatsMustBeFinite) {
    for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
        for (const float bad : {NAN, INFINITY, -1.0f}) EXPECT_NE(with(key, bad), "accepted") << key;
        EXPECT_NE(with(key, 0.0f), "accepted") << key;
    }
}

TEST(GgufNumbers, ValueLengthMustBeTheKeyLength) {
    Numbers numbers;
    numbers.integers["attention.key_length"] = numbers.integers["rope.dimension_count"] = 10;
    numbers.integers["attention.value_length"] = 10;
    EXPECT_EQ(read(numbers)->layers[0].context.head_dim, 10);
    numbers.integers["attention.value_length"] = 12;
    EXPECT_THAT(message(numbers), HasSubstr("value_length"));
}

TEST(GgufNumbers, ExpertsAndCapsAreRefused) {
    EXPECT_THAT(with("expert_count", 8u), HasSubstr("expert_count"));
    EXPECT_EQ(with("expert_count", 0u), "accepted");
    EXPECT_THAT(with("final_logit_softcapping", 30.0f), HasSubstr("final_logit_softcapping"));
}

TEST(GgufNumbers, Experts) {
    Numbers numbers;
    numbers.architecture = "gpt-oss";
    numbers.integers["feed_forward_length"] = 0;
    numbers.integers["attention.sliding_window"] = 8;
    numbers.integers["expert_count"] = 6;
    numbers.integers["expert_used_count"] = 2;
    numbers.integers["expert_feed_forward_length"] = 10;
    const ModelSpec spec = read(numbers).value();
    EXPECT_EQ(spec.layers[0].mixer.to_string(), "sliding_window:sink=learned,window=8");
    EXPECT_EQ(spec.layers[1].mixer.to_string(), "full_attention:sink=learned");
    EXPECT_EQ(spec.layers[1].experts->n_experts, 6);
    EXPECT_EQ(spec.layers[1].experts->d_ff, 10);
    EXPECT_EQ(spec.layers[1].experts->activation, ops::Activation::clamped_swiglu);
    const auto changed = [&](const char* key, uint32_t value) {
        Numbers other = numbers;
        other.integers[key] = value;
        return message(other);
    };
    EXPECT_THAT(changed("expert_used_count", 7), HasSubstr("expert_used_count"));
    EXPECT_THAT(changed("expert_used_count", 0), HasSubstr("expert_used_count"));
    EXPECT_THAT(changed("expert_gating_func", 2),
                AllOf(HasSubstr("expert_gating_func"), HasSubstr("got 2")));
    for (const char* key :
         {"expert_count", "expert_feed_forward_length", "attention.sliding_window"}) {
        Numbers other = numbers;
        other.integers.erase(key);
        if (std::string(key) == "expert_count") other.integers.erase("expert_used_count");
        EXPECT_THAT(message(other), AllOf(HasSubstr("gpt-oss"), HasSubstr(key))) << key;
    }
    numbers.floats["expert_weights_scale"] = 2.5f;
    EXPECT_THAT(message(numbers), AllOf(HasSubstr("expert_weights_scale"), HasSubstr("got 2.5")));
}

TEST(GgufNumbers, VocabularyIsTheRowsOfTheEmbedding) {
    Numbers numbers;
    std::byte* data = nullptr;
    numbers.checkpoint.tensors["token_embd.weight"] = make_tensor(DType::f32, {12, 24}, &data);
    EXPECT_THAT(message(numbers), AllOf(HasSubstr("vocab_size"), HasSubstr("got 11")));
    numbers.integers.erase("vocab_size");
    EXPECT_EQ(read(numbers)->vocab_size, 12);
}

TEST(GgufNumbers, Windows) {
    Numbers numbers;
    EXPECT_EQ(read(numbers)->layers[0].mixer.kind, "full_attention");
    numbers.integers["attention.sliding_window"] = 5;
    EXPECT_EQ(read(numbers)->layers[1].mixer.to_string(), "sliding_window:window=5");
    numbers.window_pattern = {false, true};
    EXPECT_EQ(read(numbers)->layers[0].mixer.kind, "full_attention");
    EXPECT_EQ(read(numbers)->layers[1].mixer.kind, "sliding_window");
    numbers.window_pattern = {false, true, true};
    EXPECT_THAT(message(numbers), HasSubstr("sliding_window_pattern"));
    numbers.window_pattern.clear();
    numbers.integers["attention.sliding_window"] = 0;  // how phi3 says none
    EXPECT_EQ(read(numbers)->layers[1].mixer.kind, "full_attention");
}

TEST(GgufNumbers, GemmaPatternIsSix) {
    Numbers numbers;
    numbers.architecture = "gemma3";
    numbers.integers["block_count"] = 7;
    numbers.integers["attention.sliding_window"] = 5;
    const ModelSpec spec = read(numbers).value();
    for (int i = 0; i < 7; ++i) {
        EXPECT_EQ(spec.layers[i].mixer.kind, i == 5 ? "full_attention" : "sliding_window");
        EXPECT_EQ(spec.layers[i].context.rope->theta, 10000.0);
    }
    EXPECT_EQ(spec.norm_offset, 0);  // the converter has added it
    EXPECT_EQ(spec.embedding_scale, std::sqrt(24.0f));
}

TEST(GgufNumbers, RopeScalings) {
    Numbers numbers;
    numbers.strings["rope.scaling.type"] = "yarn";
    numbers.floats["rope.scaling.factor"] = 4;
    numbers.integers["rope.scaling.original_context_length"] = 16;
    const ops::RopeSpec yarn = *read(numbers)->layers[0].context.rope;
    EXPECT_EQ(yarn.scaling, ops::RopeScaling::yarn);
    EXPECT_EQ(yarn.original_context, 16);
    EXPECT_TRUE(yarn.truncate);
    numbers.strings["rope.scaling.type"] = "twisted";
    EXPECT_THAT(message(numbers), HasSubstr("got twisted"));

    Numbers legacy;
    legacy.floats["rope.scale_linear"] = 2;
    EXPECT_EQ(read(legacy)->layers[0].context.rope->scaling, ops::RopeScaling::linear);
    EXPECT_EQ(read(legacy)->layers[0].context.rope->factor, 2);
}

TEST(GgufNumbers, LongropeChoosesByLength) {
    Numbers numbers;
    numbers.architecture = "phi3";
    numbers.integers["rope.scaling.original_context_length"] = 16;
    const float longs[] = {4, 5, 6}, shorts[] = {1, 2, 3};
    numbers.checkpoint.tensors["rope_factors_long.weight"] = make_tensor_f32({3}, longs);
    numbers.checkpoint.tensors["rope_factors_short.weight"] = make_tensor_f32({3}, shorts);
    const auto first = [&](int64_t tokens) {
        return read(numbers, tokens)->layers[0].context.rope->divisors[0];
    };
    EXPECT_EQ(first(16), 1);
    EXPECT_EQ(first(17), 4);
    EXPECT_EQ(first(0), 4);
    numbers.checkpoint.tensors["rope_factors_long.weight"] =
        make_tensor_f32({2}, std::span(longs, 2));
    EXPECT_THAT(message(numbers), HasSubstr("frequency factors"));
}

TEST(GgufNumbers, EveryFourthLayerOfSmolLm3IsWithoutRope) {
    Numbers numbers;
    numbers.architecture = "smollm3";
    numbers.integers["block_count"] = 9;
    const ModelSpec spec = read(numbers).value();
    for (int i = 0; i < 9; ++i)
        EXPECT_EQ(spec.layers[i].context.rope.has_value(), i != 3 && i != 7) << i;
}

TEST(GgufNumbers, SizesMayDifferByLayer) {
    gguf::Writer writer;
    writer.add_string("general.architecture", "llama");
    const Numbers base;
    const uint32_t heads[] = {4, 2}, widths[] = {40, 48};
    for (const auto& [name, value] : base.integers)
        if (name != "attention.head_count" && name != "feed_forward_length")
            writer.add_u32("llama." + name, value);
    for (const auto& [name, value] : base.floats) writer.add_f32("llama." + name, value);
    writer.add_u32("llama.attention.key_length", 6);
    writer.add_u32_array("llama.attention.head_count", heads);
    writer.add_u32_array("llama.feed_forward_length", widths);
    const std::vector<std::byte> bytes = writer.bytes();
    const gguf::File file = gguf::File::open_bytes(bytes, "m.gguf").value();
    const ModelSpec spec =
        spec_from_gguf(*family_of_gguf("llama", "").value(), file, {}, 0).value();
    EXPECT_EQ(spec.layers[0].context.n_heads, 4);
    EXPECT_EQ(spec.layers[1].context.n_heads, 2);
    EXPECT_EQ(spec.layers[1].d_ff, 48);
    EXPECT_EQ(spec.d_ff, 48);
}

}  // namespace
}  // namespace bifocal
