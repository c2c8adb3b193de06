// One test per thing that a safe reader of GGUF must check. Each begins with a file that is fine,
// damages one thing, and expects an error that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/gguf/file.h"
#include "formats/gguf/writer.h"

namespace bifocal::gguf {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// Writes the fields of a file one by one, right or wrong.
class Raw {
  public:
    template <class T>
    Raw& put(T value) {
        const auto* at = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), at, at + sizeof value);
        return *this;
    }
    Raw& u8(uint8_t x) { return put(x); }
    Raw& u32(uint32_t x) { return put(x); }
    Raw& u64(uint64_t x) { return put(x); }
    Raw& text(std::string_view s) {
        u64(s.size());
        for (char c : s) put(c);
        return *this;
    }
    Raw& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
        for (char c : {'G', 'G', 'U', 'F'}) put(c);
        return u32(version).u64(tensors).u64(keys);
    }
    Raw& key(std::string_view name, uint32_t type) { return text(name).u32(type); }
    Raw& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
        text(name).u32(static_cast<uint32_t>(dims.size()));
        for (uint64_t d : dims) u64(d);
        return u32(type).u64(offset);
    }
    // To a multiple of `alignment`, and `data` bytes more.
    Raw& data(size_t bytes, size_t alignment = 32) {
        bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + bytes);
        return *this;
    }
    Raw& fill(size_t bytes) {
        bytes_.resize(bytes_.size() + bytes);
        return *this;
    }
    const Bytes& bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

constexpr uint32_t kU8 = 0, kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10;
constexpr uint32_t kTypeF32 = 0, kTypeQ4_0 = 2;

template <class T>
std::string message_of(const Result<T>& result) {
    return result.ok() ? "opened without an error" : result.error().message();
}
std::string error_of(const Bytes& bytes) {
    return message_of(File::open_bytes(bytes, "test.gguf"));
}
std::string error_of(const Raw& raw) {
    return error_of(raw.bytes());
}

class GgufChecks : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() /
                  ("bifocal_gguf_" + std::to_string(::getpid()) + "_" +
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    std::filesystem::path folder_;
};

TEST_F(GgufChecks, G01_size_magic_and_version) {
    EXPECT_THAT(error_of(Bytes{}), HasSubstr("not a GGUF file"));
    EXPECT_THAT(error_of(Raw().u32(0x46464952).fill(40)), HasSubstr("not a GGUF file"));
    Raw short_header;
    short_header.header(0, 0);
    for (size_t n : {4, 8, 23}) {
        EXPECT_THAT(error_of(Bytes(short_header.bytes().begin(), short_header.bytes().begin() + n)),
                    HasSubstr("within the header"));
    }
    EXPECT_THAT(error_of(Raw().header(0, 0, 1)), HasSubstr("version 1 is not supported"));
    EXPECT_THAT(error_of(Raw().header(0, 0, 0x03000000)), HasSubstr("big-endian"));
    EXPECT_THAT(error_of(Raw().header(0, 0, 4)), HasSubstr("unknown GGUF version"));
    EXPECT_THAT(error_of(Raw().header(0, 0, 0)), HasSubstr("unknown GGUF version"));
    EXPECT_TRUE(File::open_bytes(Raw().header(0, 0, 2).bytes(), "v2").ok());
    EXPECT_TRUE(File::open_bytes(Raw().header(0, 0, 3).bytes(), "v3").ok());
}

TEST_F(GgufChecks, G02_counts_bounded_by_the_file) {
    EXPECT_THAT(error_of(Raw().header(uint64_t{1} << 60, 0)), HasSubstr("number of tensors"));
    EXPECT_THAT(error_of(Raw().header(0, uint64_t{1} << 60)), HasSubstr("number of metadata keys"));
    EXPECT_THAT(error_of(Raw().header(~uint64_t{0}, 0)), HasSubstr("number of tensors"));
    EXPECT_THAT(error_of(Raw().header(2, 0).fill(2 * 33 - 1)), HasSubstr("at most 1"));
    EXPECT_THAT(error_of(Raw().header(0, 2).fill(2 * 13 - 1)), HasSubstr("at most 1"));
    // The absolute cap counts even when the file is large enough.
    EXPECT_THAT(error_of(Raw().header(0, 65537).fill(65537 * 13)), HasSubstr("at most 65536"));
}

// An honest-looking count in a file that is large enough must not reserve count times a struct.
TEST_F(GgufChecks, G03_nothing_reserved_from_a_count) {
    const auto raw = Raw().header(30000, 60000).fill(1 << 20);
    EXPECT_THAT(error_of(raw), HasSubstr("occurs twice"));  // stops at the second empty key
}

TEST_F(GgufChecks, G04_lengths_near_2_to_64_do_not_wrap) {
    for (uint64_t length : {~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63}) {
        EXPECT_THAT(error_of(Raw().header(0, 1).u64(length).fill(64)), HasSubstr("too long"));
        EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kString).u64(length).fill(64)),
                    HasSubstr("too long"));
        EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kU64).u64(length).fill(64)),
                    HasSubstr("longer than the file"));
    }
}

TEST_F(GgufChecks, G05_string_length_and_cap) {
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kString).u64(65).fill(64)),
                HasSubstr("the file ends within"));
    EXPECT_TRUE(
        File::open_bytes(Raw().header(0, 1).key("k", kString).u64(64).fill(64).bytes(), "x").ok());
    EXPECT_THAT(error_of(Raw().header(0, 1).text(std::string(65536, 'k')).u32(kU8).u8(0)),
                HasSubstr("a key is too long"));
    EXPECT_THAT(error_of(Raw().header(0, 1).text(std::string(65535, 'k')).u32(kU8).u8(0)),
                HasSubstr("opened without"));
    const uint64_t large = (64 << 20) + 1;
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kString).u64(large).fill(large)),
                HasSubstr("too long"));
}

TEST_F(GgufChecks, G06_value_types_known_before_the_loop) {
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", 13).u64(0)), HasSubstr("unknown value type"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", ~0u).u64(0)), HasSubstr("unknown value type"));
    // A loop of 2^60 steps over elements of no bytes would never end.
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(99).u64(uint64_t{1} << 60)),
                HasSubstr("unknown array element type"));
}

TEST_F(GgufChecks, G07_array_count_bounded_once) {
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kU32).u64(3).fill(11)),
                HasSubstr("longer than the file"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kU32).u64(3).fill(12)),
                HasSubstr("opened without"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kString).u64(3).fill(23)),
                HasSubstr("longer than the file"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kString).u64(3).fill(24)),
                HasSubstr("opened without"));
    EXPECT_THAT(
        error_of(
            Raw().header(0, 1).key("k", kArray).u32(kU64).u64((uint64_t{1} << 61) + 1).fill(8)),
        HasSubstr("longer than the file"));
}

TEST_F(GgufChecks, G08_nested_arrays_rejected) {
    Raw raw;
    raw.header(0, 1).key("k", kArray);
    for (int depth = 0; depth < 10000; ++depth) raw.u32(kArray).u64(1);
    EXPECT_THAT(error_of(raw), HasSubstr("arrays of arrays"));
}

TEST_F(GgufChecks, G09_bools_and_text) {
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kBool).u8(2)), HasSubstr("not a bool"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kBool).u8(1)), HasSubstr("opened without"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kArray).u32(kBool).u64(3).u8(0).u8(1).u8(255)),
                HasSubstr("not a bool"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("k", kString).text("a\xC0\x80")),
                HasSubstr("not valid UTF-8"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("\xFF", kU8).u8(0)), HasSubstr("not valid UTF-8"));
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("\xFF", {1}, kTypeF32, 0).data(32)),
                HasSubstr("not valid UTF-8"));
    // The pieces of a tokenizer are bytes, not text.
    const auto raw = Raw().header(0, 1).key("k", kArray).u32(kString).u64(1).text("\xFF\xFE");
    const auto file = File::open_bytes(raw.bytes(), "pieces");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->metadata().get_array<std::string>("k").value()[0], "\xFF\xFE");
}

TEST_F(GgufChecks, G10_names_occur_once) {
    EXPECT_THAT(error_of(Raw().header(0, 2).key("k", kU8).u8(0).key("k", kU32).u32(0)),
                HasSubstr("key 'k': the key occurs twice"));
    EXPECT_THAT(error_of(Raw()
                             .header(2, 0)
                             .tensor("t", {8}, kTypeF32, 0)
                             .tensor("t", {8}, kTypeF32, 32)
                             .data(64)),
                HasSubstr("tensor 't': the tensor name occurs twice"));
}

TEST_F(GgufChecks, G11_alignment) {
    const auto with_alignment = [](uint32_t alignment) {
        return error_of(Raw()
                            .header(1, 1)
                            .key("general.alignment", kU32)
                            .u32(alignment)
                            .tensor("t", {8}, kTypeF32, 0)
                            .data(32, alignment == 0 ? 1 : std::min(alignment, 1u << 21)));
    };
    for (uint32_t wrong : {0u, 1u, 4u, 12u, 24u, 1u << 21, 1u << 31}) {
        EXPECT_THAT(with_alignment(wrong), HasSubstr("impossible alignment")) << wrong;
    }
    for (uint32_t right : {8u, 16u, 64u, 1u << 20}) {
        EXPECT_THAT(with_alignment(right), HasSubstr("opened without")) << right;
    }
    EXPECT_THAT(error_of(Raw().header(0, 1).key("general.alignment", kU64).u64(32)),
                HasSubstr("expected u32, got u64"));
    EXPECT_THAT(error_of(Raw().header(0, 1).key("general.alignment", kString).text("32")),
                HasSubstr("expected u32, got string"));
}

TEST_F(GgufChecks, G12_dimensions) {
    const auto with_dims = [](std::vector<uint64_t> dims) {
        return error_of(Raw().header(1, 0).tensor("t", dims, kTypeF32, 0).data(64).fill(64));
    };
    EXPECT_THAT(with_dims({}), HasSubstr("number of dimensions"));
    EXPECT_THAT(with_dims({1, 1, 1, 1, 1}), HasSubstr("number of dimensions"));
    EXPECT_THAT(with_dims({0}), HasSubstr("a dimension is 0"));
    EXPECT_THAT(with_dims({8, 0}), HasSubstr("a dimension is 0"));
    EXPECT_THAT(with_dims({0, ~uint64_t{0}}), HasSubstr("a dimension is 0"));
    EXPECT_THAT(with_dims({2, 2, 2, 1}), HasSubstr("opened without"));
    EXPECT_THAT(error_of(Raw().header(1, 0).text("t").u32(~0u).fill(64)),
                HasSubstr("number of dimensions"));
}

TEST_F(GgufChecks, G13_element_count_overflow) {
    const auto with_dims = [](std::vector<uint64_t> dims) {
        return error_of(Raw().header(1, 0).tensor("t", dims, kTypeF32, 0).data(64));
    };
    const uint64_t two_32 = uint64_t{1} << 32;
    EXPECT_THAT(with_dims({two_32, two_32}),
                HasSubstr("number of elements overflows"));  // wraps to 0
    EXPECT_THAT(with_dims({two_32, two_32, 1, 8}), HasSubstr("number of elements overflows"));
    EXPECT_THAT(with_dims({uint64_t{1} << 63}), HasSubstr("number of elements overflows"));
    EXPECT_THAT(with_dims({~uint64_t{0}}), HasSubstr("number of elements overflows"));
}

TEST_F(GgufChecks, G14_type_known_and_rows_fill_blocks) {
    const auto with_type = [](uint32_t type) {
        return error_of(Raw().header(1, 0).tensor("blk.0.w", {256, 2}, type, 0).data(4096));
    };
    EXPECT_THAT(with_type(17), HasSubstr("tensor 'blk.0.w': unsupported tensor type"));
    EXPECT_THAT(with_type(17), HasSubstr("got IQ2_XS (17)"));
    EXPECT_THAT(with_type(10), HasSubstr("got Q2_K (10)"));
    for (uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 99u, ~0u}) {
        EXPECT_THAT(with_type(removed), HasSubstr("got unknown (" + std::to_string(removed) + ")"));
    }
    for (uint32_t known : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 12u, 13u, 14u, 24u, 28u, 30u, 39u}) {
        EXPECT_THAT(with_type(known), HasSubstr("opened without")) << known;
    }
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {48, 2}, kTypeQ4_0, 0).data(4096)),
                HasSubstr("divisible by 32"));
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {31}, kTypeQ4_0, 0).data(4096)),
                HasSubstr("divisible by 32"));
}

TEST_F(GgufChecks, G15_byte_count_overflow) {
    // 2^62 elements are fine, their 2^64 bytes are not (they wrap to 0).
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {uint64_t{1} << 62}, kTypeF32, 0).data(64)),
                HasSubstr("size overflows"));
    // Rounding this length up to the alignment would wrap.
    EXPECT_THAT(
        error_of(Raw().header(1, 0).tensor("t", {(uint64_t{1} << 61) - 1}, kTypeF32, 0).data(64)),
        HasSubstr("outside the file"));
}

TEST_F(GgufChecks, G16_offsets_within_the_data) {
    const auto with_offset = [](uint64_t offset) {
        return error_of(Raw().header(1, 0).tensor("t", {8}, kTypeF32, offset).data(64));
    };
    EXPECT_THAT(with_offset(32), HasSubstr("opened without"));
    EXPECT_THAT(with_offset(4), HasSubstr("not aligned"));
    EXPECT_THAT(with_offset(64), HasSubstr("outside the file"));
    EXPECT_THAT(with_offset(~uint64_t{0} - 31), HasSubstr("outside the file"));  // offset + 32 is 0
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {17}, kTypeF32, 0).data(64)),
                HasSubstr("outside the file"));
    // The last tensor needs no padding after it.
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {3}, kTypeF32, 0).data(12)),
                HasSubstr("opened without"));
    EXPECT_THAT(error_of(Raw().header(1, 0).tensor("t", {3}, kTypeF32, 0).data(11)),
                HasSubstr("outside the file"));
}

TEST_F(GgufChecks, G17_no_overlap_and_warnings_for_holes) {
    const auto pair = [](uint64_t first, uint64_t second) {
        return Raw()
            .header(2, 0)
            .tensor("a", {16}, kTypeF32, first)
            .tensor("b", {8}, kTypeF32, second)
            .data(256);
    };
    EXPECT_THAT(error_of(pair(0, 32)), HasSubstr("tensor 'b': the tensor overlaps"));
    EXPECT_THAT(error_of(pair(0, 0)), HasSubstr("overlaps"));
    EXPECT_THAT(error_of(pair(32, 64)), HasSubstr("tensor 'b': the tensor overlaps"));

    const Bytes bytes =
        pair(128, 64).bytes();  // not in file order, hole of 64, gap of 32, 64 after
    const auto file = File::open_bytes(bytes, "holes.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message();
    ASSERT_EQ(file->warnings().size(), 3u);
    EXPECT_THAT(file->warnings()[0], HasSubstr("64 unused bytes before tensor 'b'"));
    EXPECT_THAT(file->warnings()[1], HasSubstr("32 unused bytes before tensor 'a'"));
    EXPECT_THAT(file->warnings()[2], HasSubstr("64 unused bytes after the last tensor"));
}

TEST_F(GgufChecks, G18_data_start_within_the_file) {
    Raw raw;
    raw.header(1, 0).tensor("t", {1}, kTypeF32, 0);
    EXPECT_THAT(error_of(raw), HasSubstr("ends before the tensor data"));
    const auto large = Raw()
                           .header(1, 1)
                           .key("general.alignment", kU32)
                           .u32(1 << 20)
                           .tensor("t", {1}, kTypeF32, 0)
                           .fill(4096);
    EXPECT_THAT(error_of(large), HasSubstr("ends before the tensor data"));
}

TEST_F(GgufChecks, G19_getters_never_cast_kinds) {
    Writer writer;
    writer.add_u32("u32", 7);
    writer.add_i32("minus", -1);
    writer.add_u64("huge", ~uint64_t{0});
    writer.add_u64("u64", 7);
    writer.add_f32("f32", 1.5f);
    writer.add_bool("bool", true);
    writer.add_string("string", "7");
    writer.add_i32_array("ints", std::vector<int32_t>{1, -2, 3});
    writer.add_f32_array("floats", std::vector<float>{1, 2});
    writer.add_string_array("strings", {"a", "b"});
    const Bytes bytes = writer.bytes();
    const auto file = File::open_bytes(bytes, "kinds.gguf");
    ASSERT_TRUE(file.ok()) << file.error().message();
    const Metadata& m = file->metadata();

    EXPECT_EQ(m.get_u32("u32").value(), 7u);
    EXPECT_EQ(m.get_u32("u64").value(), 7u);
    EXPECT_EQ(m.get_i64("minus").value(), -1);
    EXPECT_EQ(m.get_f32("f32").value(), 1.5f);
    EXPECT_EQ(m.get_bool("bool").value(), true);
    EXPECT_EQ(m.get_string("string").value(), "7");
    for (const char* key : {"f32", "bool", "string", "ints", "strings"}) {
        EXPECT_THAT(message_of(m.get_u32(key)), HasSubstr("wrong type")) << key;
        EXPECT_THAT(message_of(m.get_i64(key)), HasSubstr("wrong type")) << key;
    }
    for (const char* key : {"u32", "bool", "string", "floats"}) {
        EXPECT_THAT(message_of(m.get_f32(key)), HasSubstr("wrong type")) << key;
    }
    for (const char* key : {"u32", "string"}) {
        EXPECT_FALSE(m.get_bool(key).ok());
        EXPECT_FALSE(m.get_array<int32_t>(key).ok());
    }
    EXPECT_FALSE(m.get_string("u32").ok());
    EXPECT_THAT(message_of(m.get_u32("minus")), HasSubstr("got -1"));
    EXPECT_THAT(message_of(m.get_i64("huge")), HasSubstr("got 18446744073709551615"));
    EXPECT_THAT(message_of(m.get_integer("u32", 8, 9)), HasSubstr("in [8, 9], got 7"));
    EXPECT_THAT(message_of(m.get_u32("none")),
                HasSubstr("key 'none': the metadata key is missing"));

    EXPECT_EQ(m.get_array<int32_t>("ints").value(), (std::vector<int32_t>{1, -2, 3}));
    EXPECT_EQ(m.get_array<int64_t>("ints").value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_THAT(message_of(m.get_array<uint32_t>("ints")), HasSubstr("element 1 out of range"));
    EXPECT_FALSE(m.get_array<float>("ints").ok());
    EXPECT_FALSE(m.get_array<int32_t>("floats").ok());
    EXPECT_FALSE(m.get_array<std::string>("floats").ok());
    EXPECT_FALSE(m.get_array<bool>("ints").ok());
    EXPECT_EQ(m.get_array<std::string>("strings").value(), (std::vector<std::string>{"a", "b"}));

    EXPECT_EQ(m.get_per_layer("u32", 2, 0, 9).value(), (std::vector<int64_t>{7, 7}));
    EXPECT_EQ(m.get_per_layer("ints", 3, -9, 9).value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_FALSE(m.get_per_layer("ints", 2, -9, 9).ok());
    EXPECT_FALSE(m.get_per_layer("ints", 3, 0, 9).ok());
    EXPECT_EQ(m.get_integer_or("none", 0, 9, 4).value(), 4);
    EXPECT_FALSE(m.get_integer_or("string", 0, 9, 4).ok());
}

// The tokenizer checks how its arrays fit together; here, that arrays of the wrong kind never reach
// it.
TEST_F(GgufChecks, G21_token_arrays_have_their_types) {
    const auto raw = Raw()
                         .header(0, 2)
                         .key("general.architecture", kString)
                         .text("llama")
                         .key("tokenizer.ggml.tokens", kArray)
                         .u32(kF32)
                         .u64(2)
                         .fill(8);
    const auto file = File::open_bytes(raw.bytes(), "tokens.gguf");
    ASSERT_TRUE(file.ok());
    const auto tokens = file->metadata().get_array<std::string>("tokenizer.ggml.tokens");
    EXPECT_THAT(message_of(tokens), HasSubstr("expected array of string, got array of 2 f32"));
}

TEST_F(GgufChecks, G23_files_are_mapped_read_only_and_stay_alive) {
    EXPECT_THAT(message_of(File::open(path("none.gguf"))), HasSubstr("cannot open"));
    EXPECT_THAT(message_of(File::open(folder_.string())), HasSubstr("got a folder"));
    std::ofstream(path("empty.gguf")).close();
    EXPECT_THAT(message_of(File::open(path("empty.gguf"))), HasSubstr("an empty file"));

    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    Writer writer;
    writer.add_tensor("w", DType::f32, {2, 3}, std::as_bytes(std::span(values)));
    ASSERT_TRUE(writer.write(path("good.gguf")).ok());
    Tensor tensor;
    {
        const auto file = File::open(path("good.gguf"));
        ASSERT_TRUE(file.ok()) << file.error().message();
        tensor = file->tensor("w").value();
    }
    std::filesystem::remove(path("good.gguf"));
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(0, std::memcmp(tensor.bytes.data(), values.data(), 24));  // the map outlives the file
}

// Part `index` of a split model with one tensor of its own.
Writer part(uint16_t index, uint16_t count, const std::string& tensor, int32_t total = -1) {
    Writer writer;
    const auto u16 = [](uint16_t x) { return Raw().put(x).bytes(); };
    writer.add_raw("split.no", ValueType::u16, u16(index));
    writer.add_raw("split.count", ValueType::u16, u16(count));
    if (total >= 0) writer.add_i32("split.tensors.count", total);
    writer.add_tensor(tensor, DType::f32, {1, 8}, Bytes(32, static_cast<std::byte>(index + 1)));
    return writer;
}

TEST_F(GgufChecks, G24_split_files) {
    const auto write = [&](const std::string& name, const Writer& writer) {
        ASSERT_TRUE(writer.write(path(name)).ok());
    };
    write("m-00001-of-00003.gguf", part(0, 3, "a", 3));
    write("m-00002-of-00003.gguf", part(1, 3, "b"));
    EXPECT_THAT(message_of(File::open(path("m-00001-of-00003.gguf"))),
                HasSubstr("m-00003-of-00003.gguf: cannot open"));
    write("m-00003-of-00003.gguf", part(2, 3, "c"));
    const auto file = File::open(path("m-00001-of-00003.gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->parts().size(), 3u);
    EXPECT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->tensor("c")->bytes[0], std::byte{3});
    EXPECT_EQ(file->find_tensor("c")->part, 2u);

    const auto expect_error = [&](const std::string& name, const Writer& writer,
                                  const std::string& message) {
        std::filesystem::copy_file(path(name), path("keep"));
        write(name, writer);
        EXPECT_THAT(message_of(File::open(path("m-00001-of-00003.gguf"))), HasSubstr(message));
        std::filesystem::rename(path("keep"), path(name));
    };
    expect_error("m-00002-of-00003.gguf", part(1, 3, "a"), "occurs in two parts");
    expect_error("m-00002-of-00003.gguf", part(2, 3, "b"), "does not belong here");
    expect_error("m-00002-of-00003.gguf", part(1, 4, "b"), "does not belong here");
    expect_error("m-00001-of-00003.gguf", part(0, 3, "a", 4), "missing or too many");
    expect_error("m-00001-of-00003.gguf", part(3, 3, "a"), "impossible number of this part");
    expect_error("m-00001-of-00003.gguf", part(0, 4, "a"), "does not fit its split.count");
    EXPECT_THAT(message_of(File::open(path("m-00002-of-00003.gguf"))),
                HasSubstr("not the first part"));
    EXPECT_THAT(error_of(part(0, 3, "a").bytes()), HasSubstr("cannot be read alone"));
    EXPECT_EQ(split_part_path("/x/m-00001-of-00003.gguf", 1, 3), "/x/m-00002-of-00003.gguf");
    EXPECT_EQ(split_part_path("/x/m.gguf", 1, 3), "");
}

}  // namespace
}  // namespace bifocal::gguf
