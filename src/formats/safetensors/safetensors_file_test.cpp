// Round trips through the writer, files that transformers wrote, and damage to every byte of a
// header.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/safetensors/file.h"
#include "formats/safetensors/writer.h"

namespace bifocal::safetensors {
namespace {

namespace fs = std::filesystem;

class SafetensorsFile : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() /
                  ("bifocal_safetensors_" + std::to_string(::getpid()) + "_" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string read(const std::string& name) const {
        std::ifstream file(folder_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    fs::path folder_;
};

std::vector<NamedTensor> some_tensors() {
    std::vector<NamedTensor> tensors;
    const std::pair<const char*, DType> kinds[] = {
        {"z.bytes", DType::u8}, {"b.half", DType::f16},  {"a.half", DType::bf16},
        {"c.wide", DType::f64}, {"d.plain", DType::f32}, {"e.\xC3\xA9\"\n", DType::i64}};
    int seed = 1;
    for (const auto& [name, dtype] : kinds) {
        std::byte* data = nullptr;
        Tensor tensor = make_tensor(dtype, {3, 5}, &data);
        for (size_t i = 0; i < tensor.bytes.size(); ++i) {
            data[i] = static_cast<std::byte>(seed * 37 + static_cast<int>(i));
        }
        tensors.push_back({name, std::move(tensor)});
        ++seed;
    }
    std::byte* data = nullptr;
    tensors.push_back({"scalar", make_tensor(DType::f32, {}, &data)});
    tensors.push_back({"nothing", make_tensor(DType::f32, {4, 0}, &data)});
    return tensors;
}

void expect_same(const File& file, const std::vector<NamedTensor>& tensors) {
    EXPECT_EQ(file.tensors().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
        const auto back = file.tensor(name);
        ASSERT_TRUE(back.ok()) << back.error().message();
        EXPECT_EQ(back->dtype, tensor.dtype);
        EXPECT_EQ(back->shape, tensor.shape);
        EXPECT_TRUE(std::ranges::equal(back->bytes, tensor.bytes)) << name;
    }
}

TEST_F(SafetensorsFile, comes_back_and_is_deterministic) {
    std::vector<NamedTensor> tensors = some_tensors();
    const std::string path = (folder_ / "m.safetensors").string();
    ASSERT_TRUE(write_file(path, tensors, {{"format", "pt"}}).ok());
    const std::string first = read("m.safetensors");
    const auto file = File::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message();
    expect_same(*file, tensors);
    EXPECT_EQ(file->metadata().at("format"), "pt");
    for (const TensorInfo& info : file->tensors()) {
        const auto at = reinterpret_cast<uintptr_t>(info.bytes.data());
        EXPECT_EQ(at % static_cast<uintptr_t>(dtype_info(info.dtype).block_bytes), 0u);
    }
    std::ranges::reverse(tensors);
    ASSERT_TRUE(write_file(path, tensors, {{"format", "pt"}}).ok());
    EXPECT_EQ(read("m.safetensors"), first);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // nothing left beside it
}

TEST_F(SafetensorsFile, shards_come_back) {
    const std::vector<NamedTensor> tensors = some_tensors();
    ASSERT_TRUE(write_folder(folder_.string(), tensors, 100).ok());
    const auto file = File::open_folder(folder_.string());
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_GT(file->shards().size(), 2u);
    EXPECT_TRUE(file->warnings().empty());
    expect_same(*file, tensors);
    fs::remove(folder_ / "model.safetensors.index.json");
    ASSERT_TRUE(write_folder(folder_.string(), tensors, 1 << 20).ok());
    const auto single = File::open_folder(folder_.string());
    ASSERT_TRUE(single.ok()) << single.error().message();
    EXPECT_EQ(single->shards().size(), 1u);
    expect_same(*single, tensors);
}

TEST_F(SafetensorsFile, writer_refuses_what_cannot_be_read) {
    const std::string path = (folder_ / "m.safetensors").string();
    std::byte* data = nullptr;
    const std::vector<NamedTensor> quantised{{"q", make_tensor(DType::q8_0, {32}, &data)}};
    EXPECT_FALSE(write_file(path, quantised).ok());
    std::vector<NamedTensor> twice = some_tensors();
    twice.push_back(twice[0]);
    EXPECT_FALSE(write_file(path, twice).ok());
    const std::vector<NamedTensor> reserved{{"__metadata__", make_tensor(DType::f32, {1}, &data)}};
    EXPECT_FALSE(write_file(path, reserved).ok());
    EXPECT_FALSE(fs::exists(path));
    EXPECT_FALSE(write_file((folder_ / "none" / "m.safetensors").string(), some_tensors()).ok());
}

TEST_F(SafetensorsFile, every_cut_and_flipped_byte_is_survived) {
    ASSERT_TRUE(write_file((folder_ / "m.safetensors").string(), some_tensors()).ok());
    const std::string good = read("m.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, good.data(), sizeof length);
    for (size_t n = 0; n < good.size(); n += n < 8 + length ? 1 : 13) {
        const std::string cut = good.substr(0, n);
        EXPECT_FALSE(File::open_bytes(std::as_bytes(std::span(cut)), "cut").ok()) << n;
    }
    for (size_t at = 0; at < 8 + length; ++at) {
        for (int mask : {0x01, 0x10, 0x80}) {
            std::string damaged = good;
            damaged[at] = static_cast<char>(damaged[at] ^ mask);
            const auto file = File::open_bytes(std::as_bytes(std::span(damaged)), "damaged");
            if (file.ok()) continue;  // a changed name or text
            EXPECT_FALSE(file.error().message().empty());
        }
    }
}

TEST_F(SafetensorsFile, reads_what_transformers_wrote) {
    const fs::path models = BIFOCAL_SOURCE_DIR "/tests/golden/models";
    int folders = 0;
    for (const auto& entry : fs::directory_iterator(models)) {
        if (!fs::exists(entry.path() / "config.json")) continue;
        const auto file = File::open_folder(entry.path().string());
        ASSERT_TRUE(file.ok()) << file.error().message();
        EXPECT_TRUE(file->has_tensor("model.norm.weight") ||
                    file->has_tensor("model.language_model.norm.weight"))
            << entry.path();
        EXPECT_FALSE(file->has_tensor("logits")) << "the golden file is no shard";
        ++folders;
    }
    EXPECT_GE(folders, 10);
    const auto sharded = File::open_folder((models / "llama").string());
    ASSERT_TRUE(sharded.ok());
    EXPECT_EQ(sharded->shards().size(), 4u);
    EXPECT_EQ(sharded->tensor("model.embed_tokens.weight")->shape, (std::vector<int64_t>{97, 32}));
}

}  // namespace
}  // namespace bifocal::safetensors
