// What a good GGUF file gives, and that cutting or flipping any byte of it never does worse than an
// error.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "core/dequant.h"
#include "core/testing/random_blocks.h"
#include "formats/gguf/file.h"
#include "formats/gguf/hparams.h"
#include "formats/gguf/writer.h"

namespace bifocal::gguf {
namespace {

using Bytes = std::vector<std::byte>;

Bytes every_type_once() {
    std::mt19937_64 rng(3);
    Writer writer(64);
    writer.add_string("general.architecture", "llama");
    writer.add_u32("llama.block_count", 2);
    writer.add_f32("llama.rope.freq_base", 1e5f);
    writer.add_bool("tokenizer.ggml.add_bos_token", false);
    writer.add_string_array("tokenizer.ggml.tokens", {"a", "", "\xFF"});
    writer.add_bool_array("flags", {true, false});
    for (int d = 0; d <= static_cast<int>(DType::mxfp4); ++d) {
        const auto dtype = static_cast<DType>(d);
        if (!is_real(dtype)) continue;
        writer.add_tensor(std::string("w.") + std::string(dtype_info(dtype).name), dtype, {3, 256},
                          testing::random_blocks(dtype, 3 * 256, rng));
    }
    return writer.bytes();
}

TEST(GgufFile, gives_back_what_was_written) {
    const Bytes bytes = every_type_once();
    const auto file = File::open_bytes(bytes, "all.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->version(), 3u);
    EXPECT_TRUE(file->warnings().empty());
    EXPECT_EQ(file->metadata().entries()[1].key, "general.architecture");
    EXPECT_EQ(file->metadata().get_f32("llama.rope.freq_base").value(), 1e5f);
    EXPECT_EQ(file->metadata().get_array<bool>("flags").value(), (std::vector<bool>{true, false}));
    EXPECT_EQ(file->tensors().size(), 13u);
    std::mt19937_64 rng(3);
    for (const TensorInfo& info : file->tensors()) {
        const auto expected = testing::random_blocks(info.dtype, 3 * 256, rng);
        const auto tensor = file->tensor(info.name);
        ASSERT_TRUE(tensor.ok());
        EXPECT_EQ(tensor->shape, (std::vector<int64_t>{3, 256}));
        EXPECT_EQ(info.file_offset % 64, 0u);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tensor->bytes.begin(),
                               tensor->bytes.end()));
    }
}

// Touches everything that an open file offers.
void walk(const Bytes& bytes) {
    const auto file = File::open_bytes(bytes, "damaged.gguf");
    if (!file.ok()) {
        EXPECT_FALSE(file.error().message().empty());
        return;
    }
    for (const TensorInfo& info : file->tensors()) {
        std::vector<float> block(static_cast<size_t>(dtype_info(info.dtype).block_elems));
        if (is_real(info.dtype)) dequantise_row(info.dtype, info.bytes.data(), block);
    }
    static_cast<void>(check_hparams(*file));
}

TEST(GgufFile, every_cut_and_flipped_byte_is_survived) {
    const Bytes bytes = every_type_once();
    const auto file = File::open_bytes(bytes, "x");
    ASSERT_TRUE(file.ok());
    const size_t head = file->tensors()[0].file_offset;
    for (size_t n = 0; n < head; ++n) {
        const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
        EXPECT_FALSE(File::open_bytes(cut, "cut").ok()) << n;
    }
    for (size_t at = 0; at < head; ++at) {
        for (std::byte mask : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
            Bytes damaged = bytes;
            damaged[at] ^= mask;
            walk(damaged);
        }
    }
}

TEST(GgufFile, reads_the_real_model) {
    const std::string path = BIFOCAL_SOURCE_DIR "/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    const auto file = File::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message();
    const auto h = check_hparams(*file);
    ASSERT_TRUE(h.ok()) << h.error().message();
    EXPECT_EQ(h->architecture, "llama");
    EXPECT_EQ(h->block_count, 30);
    EXPECT_EQ(h->embedding_length, 576);
    EXPECT_EQ(h->head_count[0], 9);
    EXPECT_EQ(h->head_count_kv[29], 3);
    EXPECT_EQ(h->vocab_size, 49152);
    EXPECT_EQ(h->rope_freq_base, 1e5f);
    EXPECT_EQ(file->tensors().size(), 272u);
    EXPECT_EQ(file->find_tensor("token_embd.weight")->dtype, DType::q8_0);
    EXPECT_EQ(file->find_tensor("blk.0.attn_q.weight")->dtype, DType::q4_1);
    EXPECT_TRUE(tensor_of_shape(*file, "blk.7.ffn_down.weight", {576, 1536}).ok());
    EXPECT_EQ(file->metadata().get_array<std::string>("tokenizer.ggml.tokens")->size(), 49152u);
    EXPECT_TRUE(file->warnings().empty());
}

}  // namespace
}  // namespace bifocal::gguf
