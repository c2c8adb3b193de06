// One test per thing that a safe reader of safetensors must check. Each damages one thing in a file
// that is fine otherwise, and expects an error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/safetensors/file.h"
#include "formats/safetensors/writer.h"

namespace bifocal::safetensors {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string file_of(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out + header + std::string(data_bytes, 'd');
}

template <class T>
std::string message_of(const Result<T>& result) {
    return result.ok() ? "opened without an error" : result.error().message();
}
std::string open(const std::string& file) {
    return message_of(File::open_bytes(std::as_bytes(std::span(file)), "x.safetensors"));
}
std::string open(const std::string& header, size_t data_bytes) {
    return open(file_of(header, data_bytes));
}
// A header of one tensor "t".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
}

class SafetensorsChecks : public ::testing::Test {
  protected:
    void SetUp() override {
        root_ = fs::temp_directory_path() /
                ("bifocal_safetensors_" + std::to_string(::getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
        folder_ = root_ / "model";
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(root_); }
    void put(const fs::path& path, const std::string& text) {
        std::ofstream(path, std::ios::binary) << text;
    }
    void put_index(const std::string& weight_map, const std::string& total_size = "8") {
        put(folder_ / "model.safetensors.index.json",
            R"({"metadata":{"total_size":)" + total_size + R"(},"weight_map":)" + weight_map + "}");
    }
    std::string open_folder() { return message_of(File::open_folder(folder_.string())); }

    fs::path root_, folder_;
};

const std::string kShardA = file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
const std::string kShardB = file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
const char* const kMap = R"({"a":"one.safetensors","b":"two.safetensors"})";

TEST_F(SafetensorsChecks, T01_header_length) {
    EXPECT_THAT(open(std::string()), HasSubstr("at least 8 bytes"));
    EXPECT_THAT(open(std::string(7, '\0')), HasSubstr("at least 8 bytes"));
    EXPECT_EQ(open("{}", 0), "opened without an error");
    for (uint64_t length : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 7}) {
        std::string file = file_of("{}", 0);
        std::memcpy(file.data(), &length, sizeof length);
        EXPECT_THAT(open(file), HasSubstr("longer than the file"));
    }
    EXPECT_THAT(open(std::string(100'000'001, ' '), 0), HasSubstr("at most 100000000 bytes"));
}

TEST_F(SafetensorsChecks, T02_header_is_text) {
    EXPECT_THAT(open(" {}", 0), HasSubstr("expected '{'"));
    EXPECT_THAT(open("", 0), HasSubstr("expected '{'"));
    EXPECT_THAT(open("[]", 0), HasSubstr("expected '{'"));
    EXPECT_EQ(open("{}      ", 0), "opened without an error");
    EXPECT_THAT(open(std::string("{}\0", 3), 0), HasSubstr("UTF-8 without NUL"));
    EXPECT_THAT(open("{\"\xFF\":{}}", 0), HasSubstr("offset 10: the header is no text"));
    EXPECT_THAT(open("{} x", 0), HasSubstr("not valid JSON"));
}

TEST_F(SafetensorsChecks, T03_repeated_keys_and_depth) {
    const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    EXPECT_THAT(open(R"({"t":)" + entry + R"(,"t":)" + entry + "}", 0), HasSubstr("occurs twice"));
    EXPECT_THAT(open(R"({"t":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})", 0),
                HasSubstr("occurs twice"));
    EXPECT_THAT(open(R"({"__metadata__":{"a":"1","a":"2"}})", 0), HasSubstr("occurs twice"));
    EXPECT_THAT(open(R"({"t":)" + std::string(100000, '[') + "}", 0), HasSubstr("too deeply"));
    EXPECT_THAT(open(R"({"__metadata__":{"a":1}})", 0), HasSubstr("expected a string"));
}

TEST_F(SafetensorsChecks, T04_dtype_known) {
    EXPECT_EQ(open(one("BF16", "[3]", "[0,6]"), 6), "opened without an error");
    EXPECT_THAT(open(one("F8_E4M3", "[4]", "[0,4]"), 4),
                HasSubstr("tensor 't': unsupported dtype"));
    EXPECT_THAT(open(one("F12", "[4]", "[0,4]"), 4), HasSubstr("unknown dtype"));
    EXPECT_THAT(open(one("F12", "[4]", "[0,4]"), 4), HasSubstr("got F12"));
    EXPECT_THAT(open(R"({"t":{"shape":[4],"data_offsets":[0,4]}})", 4), HasSubstr("the dtype"));
}

TEST_F(SafetensorsChecks, T05_shape) {
    for (const char* shape : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[null]", "[[1]]", "[true]",
                              "[9223372036854775808]", "[99999999999999999999]"}) {
        EXPECT_THAT(open(one("U8", shape, "[0,1]"), 1), HasSubstr("not a size")) << shape;
    }
    EXPECT_THAT(open(one("U8", "1", "[0,1]"), 1), HasSubstr("no array"));
    EXPECT_THAT(open(one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1),
                HasSubstr("too many dimensions"));
    EXPECT_EQ(open(one("U8", "[1,1,1,1,1,1,1,1]", "[0,1]"), 1), "opened without an error");
    EXPECT_THAT(open(one("U8", "[4294967296,4294967296]", "[0,0]"), 0),
                HasSubstr("number of elements overflows"));
    EXPECT_THAT(open(one("F64", "[4611686018427387904]", "[0,0]"), 0), HasSubstr("size overflows"));
}

TEST_F(SafetensorsChecks, T06_offsets_in_the_file) {
    EXPECT_THAT(open(one("U8", "[4]", "[4,0]"), 4), HasSubstr("outside the file"));
    EXPECT_THAT(open(one("U8", "[5]", "[0,5]"), 4), HasSubstr("outside the file"));
    EXPECT_THAT(open(one("U8", "[4]", "[0,18446744073709551615]"), 4), HasSubstr("outside"));
    for (const char* offsets : {"[-4,0]", "[0.0,4]", "[0,4,4]", "[0]", "4", "[0,\"4\"]"}) {
        EXPECT_THAT(open(one("U8", "[4]", offsets), 4), HasSubstr("data_offsets")) << offsets;
    }
}

TEST_F(SafetensorsChecks, T07_offsets_fit_shape_and_dtype) {
    EXPECT_THAT(open(one("F32", "[2]", "[0,4]"), 4), HasSubstr("expected 8 bytes, got 4"));
    EXPECT_THAT(open(one("F16", "[1]", "[0,4]"), 4), HasSubstr("expected 2 bytes, got 4"));
    EXPECT_EQ(open(one("F32", "[]", "[0,4]"), 4), "opened without an error");     // a scalar
    EXPECT_EQ(open(one("F32", "[3,0]", "[0,0]"), 0), "opened without an error");  // no elements
}

TEST_F(SafetensorsChecks, T08_exact_cover) {
    const auto pair = [](const std::string& a, const std::string& b, size_t data) {
        return open(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                        R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                    data);
    };
    EXPECT_EQ(pair("[0,4]", "[4,8]", 8), "opened without an error");
    EXPECT_EQ(pair("[4,8]", "[0,4]", 8), "opened without an error");  // any order in the header
    EXPECT_THAT(pair("[0,4]", "[5,9]", 9), HasSubstr("tensor 'b': unused bytes before"));
    EXPECT_THAT(pair("[0,4]", "[3,7]", 8), HasSubstr("tensor 'b': the tensor overlaps"));
    EXPECT_THAT(pair("[0,4]", "[0,4]", 4), HasSubstr("overlaps"));
    EXPECT_THAT(pair("[1,5]", "[5,9]", 9), HasSubstr("tensor 'a': unused bytes before"));
    EXPECT_THAT(pair("[0,4]", "[4,8]", 9), HasSubstr("unused bytes after"));
    EXPECT_THAT(open("{}", 1), HasSubstr("unused bytes after"));
}

TEST_F(SafetensorsChecks, T09_index_and_shards_agree) {
    put(folder_ / "one.safetensors", kShardA);
    put_index(kMap);
    EXPECT_THAT(open_folder(), HasSubstr("two.safetensors"));  // an interrupted download
    put(folder_ / "two.safetensors", kShardB);
    const auto file = File::open_folder(folder_.string());
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->tensors().size(), 2u);
    EXPECT_TRUE(file->warnings().empty());
    EXPECT_EQ(file->find_tensor("b")->shard, 1u);

    put(folder_ / "two.safetensors", kShardA);
    EXPECT_THAT(open_folder(), HasSubstr("tensor 'a': the tensor occurs in two shards"));
    put(folder_ / "two.safetensors", kShardB);
    put_index(R"({"a":"two.safetensors","b":"one.safetensors"})");
    EXPECT_THAT(open_folder(), HasSubstr("key 'a': the tensor is not in the shard"));
    put_index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
    EXPECT_THAT(open_folder(), HasSubstr("key 'c': the tensor is not in the shard"));
    put_index(R"({"a":"one.safetensors","a":"two.safetensors"})");
    EXPECT_THAT(open_folder(), HasSubstr("occurs twice"));
    put_index(R"({"a":1})");
    EXPECT_THAT(open_folder(), HasSubstr("a file name"));
    put(folder_ / "model.safetensors.index.json", "{}");
    EXPECT_THAT(open_folder(), HasSubstr("key 'weight_map': the key is missing"));
}

TEST_F(SafetensorsChecks, T10_shards_are_plain_names_in_the_folder) {
    put(root_ / "out.safetensors", kShardA);
    for (const std::string name : {"../out.safetensors", "/etc/passwd", "a/b.safetensors",
                                   "..\\\\x", "..", ".", "", "a\\u0000b"}) {
        put_index(R"({"a":")" + name + R"("})");
        EXPECT_THAT(open_folder(), HasSubstr("not a plain file name")) << name;
    }
    put_index(R"({"a":"link.safetensors"})", "4");
    fs::create_symlink(root_ / "out.safetensors", folder_ / "link.safetensors");
    EXPECT_THAT(open_folder(), HasSubstr("a link out of the model's folder"));
    fs::remove(folder_ / "link.safetensors");
    put(folder_ / "real.safetensors", kShardA);
    fs::create_symlink("real.safetensors", folder_ / "link.safetensors");
    EXPECT_EQ(open_folder(), "opened without an error");

    // The cache of huggingface_hub: snapshots of links into blobs.
    const fs::path cache = root_ / "models--x";
    fs::create_directories(cache / "blobs");
    fs::create_directories(cache / "snapshots" / "rev");
    put(cache / "blobs" / "hash", kShardA);
    fs::create_symlink("../../blobs/hash", cache / "snapshots" / "rev" / "model.safetensors");
    EXPECT_EQ(message_of(File::open_folder((cache / "snapshots" / "rev").string())),
              "opened without an error");
}

TEST_F(SafetensorsChecks, T11_total_size_only_warns) {
    put(folder_ / "one.safetensors", kShardA);
    put(folder_ / "two.safetensors", kShardB);
    put_index(kMap, "12");
    const auto file = File::open_folder(folder_.string());
    ASSERT_TRUE(file.ok()) << file.error().message();
    ASSERT_EQ(file->warnings().size(), 1u);
    EXPECT_THAT(file->warnings()[0], HasSubstr("total_size says 12 bytes, the tensors have 8"));
    put_index(R"({"a":"one.safetensors"})", "4");
    EXPECT_EQ(open_folder(), "opened without an error");  // two.safetensors is a stray file
}

TEST_F(SafetensorsChecks, T12_data_may_be_unaligned) {
    const float value = 2.5f;
    for (int pad = 0; pad < 4; ++pad) {
        std::string padded = file_of(one("F32", "[1]", "[0,4]") + std::string(pad, ' '), 4);
        std::memcpy(padded.data() + padded.size() - 4, &value, 4);
        const auto opened = File::open_bytes(std::as_bytes(std::span(padded)), "x");
        ASSERT_TRUE(opened.ok());
        float read = 0;
        std::memcpy(&read, opened->tensor("t")->bytes.data(), 4);
        EXPECT_EQ(read, value);
    }
}

TEST_F(SafetensorsChecks, T13_other_formats_are_refused) {
    const std::string gguf = std::string("GGUF\3\0\0\0", 8) + std::string(64, '\0');
    const std::string zip = "PK\3\4" + std::string(60, '\0');  // a PyTorch checkpoint
    const std::string pickle = "\x80\x02}q\x01." + std::string(60, '\0');
    const std::string html = "<!DOCTYPE html><html>not found</html>";
    for (const std::string& file : {gguf, zip, pickle, html}) {
        EXPECT_THAT(open(file), HasSubstr("x.safetensors"));
        EXPECT_THAT(open(file), HasSubstr("safetensors file"));
    }
    EXPECT_THAT(message_of(File::open_folder(folder_.string())), HasSubstr("holds no weights"));
    EXPECT_THAT(message_of(File::open_folder((root_ / "none").string())),
                HasSubstr("not a folder"));
    EXPECT_THAT(message_of(File::open((root_ / "none").string())), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace bifocal::safetensors
