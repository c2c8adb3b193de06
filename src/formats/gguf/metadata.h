// The metadata of a GGUF file: an ordered list of keys with typed values. The getters convert
// between widths of the same kind when the value fits, and refuse everything else: an integer is
// never read from a string, a float or an array.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "bifocal/error.h"
#include "formats/gguf/types.h"

namespace bifocal::gguf {

struct Array {
    ValueType element = ValueType::u8;
    uint64_t count = 0;
    std::span<const std::byte> raw;  // numbers and bools as in the file: little-endian, packed
    std::vector<std::string_view> strings;  // when element is string; any bytes, not only UTF-8
};

struct Value {
    ValueType type = ValueType::u8;
    uint64_t offset = 0;  // where the value begins in the file
    // Signed and unsigned integers of every width, both floats, and so on.
    std::variant<int64_t, uint64_t, double, bool, std::string, Array> held;

    std::string label() const;  // "u32", "array of string"
    // Nothing when the value is no integer or is beyond int64.
    std::optional<int64_t> as_integer() const;
};

class Metadata {
  public:
    // `source` names the file in errors. Array values point into memory that the caller keeps.
    explicit Metadata(std::string source = {}) : source_(std::move(source)) {}

    struct Entry {
        std::string key;
        Value value;
    };
    const std::vector<Entry>& entries() const { return entries_; }
    const std::string& source() const { return source_; }

    // False when the key is there already.
    bool add(std::string key, Value value);
    const Value* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) != nullptr; }

    // An integer of any width in [min, max].
    Result<int64_t> get_integer(std::string_view key, int64_t min, int64_t max) const;
    Result<uint32_t> get_u32(std::string_view key) const;
    Result<int64_t> get_i64(std::string_view key) const;
    Result<float> get_f32(std::string_view key) const;  // finite or not, as stored
    Result<bool> get_bool(std::string_view key) const;
    Result<std::string> get_string(std::string_view key) const;
    // A missing key gives `otherwise`; a key of another type is still an error.
    Result<int64_t> get_integer_or(std::string_view key, int64_t min, int64_t max,
                                   int64_t otherwise) const;
    Result<float> get_f32_or(std::string_view key, float otherwise) const;
    Result<bool> get_bool_or(std::string_view key, bool otherwise) const;
    Result<std::string> get_string_or(std::string_view key, std::string otherwise) const;

    // T: int32_t, uint32_t, int64_t (from integers that fit), float (from floats), bool,
    // std::string.
    template <class T>
    Result<std::vector<T>> get_array(std::string_view key) const;

    // One integer in [min, max] for each of n layers, from a scalar or from an array of n integers.
    Result<std::vector<int64_t>> get_per_layer(std::string_view key, int64_t n, int64_t min,
                                               int64_t max) const;

    // For callers' own checks: an error at this key.
    Error error(std::string_view key, std::string what, std::string expected = {},
                std::string got = {}) const;

  private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
    };
    Result<const Value*> require(std::string_view key) const;
    Error wrong_type(std::string_view key, const Value& value, std::string expected) const;

    std::string source_;
    std::vector<Entry> entries_;
    std::unordered_map<std::string, size_t, Hash, std::equal_to<>> index_;
};

extern template Result<std::vector<int32_t>> Metadata::get_array(std::string_view) const;
extern template Result<std::vector<uint32_t>> Metadata::get_array(std::string_view) const;
extern template Result<std::vector<int64_t>> Metadata::get_array(std::string_view) const;
extern template Result<std::vector<float>> Metadata::get_array(std::string_view) const;
extern template Result<std::vector<bool>> Metadata::get_array(std::string_view) const;
extern template Result<std::vector<std::string>> Metadata::get_array(std::string_view) const;

}  // namespace bifocal::gguf
