#include "formats/gguf/metadata.h"

#include <fmt/format.h>

#include <cstring>

namespace bifocal::gguf {
namespace {

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Element i of an integer array; nothing when a u64 is beyond int64.
std::optional<int64_t> integer_at(const Array& array, uint64_t i) {
    const std::byte* at =
        array.raw.data() + i * static_cast<uint64_t>(value_type_bytes(array.element));
    switch (array.element) {
        case ValueType::u8:
            return load<uint8_t>(at);
        case ValueType::i8:
            return load<int8_t>(at);
        case ValueType::u16:
            return load<uint16_t>(at);
        case ValueType::i16:
            return load<int16_t>(at);
        case ValueType::u32:
            return load<uint32_t>(at);
        case ValueType::i32:
            return load<int32_t>(at);
        case ValueType::i64:
            return load<int64_t>(at);
        default: {
            const auto wide = load<uint64_t>(at);
            if (wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
                return std::nullopt;
            }
            return static_cast<int64_t>(wide);
        }
    }
}

std::string range_label(int64_t min, int64_t max) {
    if (max == std::numeric_limits<int64_t>::max()) return fmt::format("an integer >= {}", min);
    return fmt::format("an integer in [{}, {}]", min, max);
}

}  // namespace

std::string Value::label() const {
    if (const auto* array = std::get_if<Array>(&held)) {
        return fmt::format("array of {} {}", array->count, value_type_name(array->element));
    }
    return std::string(value_type_name(type));
}

std::optional<int64_t> Value::as_integer() const {
    if (const auto* narrow = std::get_if<int64_t>(&held)) return *narrow;
    const auto* wide = std::get_if<uint64_t>(&held);
    if (!wide || *wide > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return {};
    return static_cast<int64_t>(*wide);
}

bool Metadata::add(std::string key, Value value) {
    if (!index_.emplace(key, entries_.size()).second) return false;
    entries_.push_back({std::move(key), std::move(value)});
    return true;
}

const Value* Metadata::find(std::string_view key) const {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &entries_[at->second].value;
}

Error Metadata::error(std::string_view key, std::string what, std::string expected,
                      std::string got) const {
    std::string where = fmt::format("{}, key '{}'", source_, key);
    if (const Value* value = find(key)) where += fmt::format(" (offset {})", value->offset);
    return {.what = std::move(what),
            .where = std::move(where),
            .expected = std::move(expected),
            .got = std::move(got)};
}

Error Metadata::wrong_type(std::string_view key, const Value& value, std::string expected) const {
    return error(key, "metadata value of the wrong type", std::move(expected), value.label());
}

Result<const Value*> Metadata::require(std::string_view key) const {
    const Value* value = find(key);
    if (!value) return error(key, "the metadata key is missing");
    return value;
}

Result<int64_t> Metadata::get_integer(std::string_view key, int64_t min, int64_t max) const {
    BIFOCAL_TRY(const Value* value, require(key));
    if (!is_integer(value->type)) return wrong_type(key, *value, range_label(min, max));
    const auto number = value->as_integer();
    if (!number || *number < min || *number > max) {
        const auto* wide = std::get_if<uint64_t>(&value->held);
        return error(key, "metadata value out of range", range_label(min, max),
                     wide ? std::to_string(*wide) : std::to_string(*number));
    }
    return *number;
}

Result<uint32_t> Metadata::get_u32(std::string_view key) const {
    BIFOCAL_TRY(const int64_t number, get_integer(key, 0, std::numeric_limits<uint32_t>::max()));
    return static_cast<uint32_t>(number);
}

Result<int64_t> Metadata::get_i64(std::string_view key) const {
    return get_integer(key, std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<int64_t>::max());
}

Result<float> Metadata::get_f32(std::string_view key) const {
    BIFOCAL_TRY(const Value* value, require(key));
    const auto* number = std::get_if<double>(&value->held);
    if (!number) return wrong_type(key, *value, "f32");
    return static_cast<float>(*number);
}

Result<bool> Metadata::get_bool(std::string_view key) const {
    BIFOCAL_TRY(const Value* value, require(key));
    const auto* flag = std::get_if<bool>(&value->held);
    if (!flag) return wrong_type(key, *value, "bool");
    return bool{*flag};
}

Result<std::string> Metadata::get_string(std::string_view key) const {
    BIFOCAL_TRY(const Value* value, require(key));
    const auto* text = std::get_if<std::string>(&value->held);
    if (!text) return wrong_type(key, *value, "string");
    return std::string{*text};
}

Result<int64_t> Metadata::get_integer_or(std::string_view key, int64_t min, int64_t max,
                                         int64_t otherwise) const {
    if (!has(key)) return otherwise;
    return get_integer(key, min, max);
}

Result<float> Metadata::get_f32_or(std::string_view key, float otherwise) const {
    if (!has(key)) return otherwise;
    return get_f32(key);
}

Result<bool> Metadata::get_bool_or(std::string_view key, bool otherwise) const {
    if (!has(key)) return otherwise;
    return get_bool(key);
}

Result<std::string> Metadata::get_string_or(std::string_view key, std::string otherwise) const {
    if (!has(key)) return otherwise;
    return get_string(key);
}

template <class T>
Result<std::vector<T>> Metadata::get_array(std::string_view key) const {
    BIFOCAL_TRY(const Value* value, require(key));
    const auto* array = std::get_if<Array>(&value->held);
    std::vector<T> out;
    if constexpr (std::is_same_v<T, std::string>) {
        if (!array || array->element != ValueType::string) {
            return wrong_type(key, *value, "array of string");
        }
        out.assign(array->strings.begin(), array->strings.end());
    } else if constexpr (std::is_same_v<T, bool>) {
        if (!array || array->element != ValueType::boolean) {
            return wrong_type(key, *value, "array of bool");
        }
        for (std::byte flag : array->raw) out.push_back(flag != std::byte{0});
    } else if constexpr (std::is_same_v<T, float>) {
        const bool narrow = array && array->element == ValueType::f32;
        if (!narrow && !(array && array->element == ValueType::f64)) {
            return wrong_type(key, *value, "array of f32");
        }
        for (uint64_t i = 0; i < array->count; ++i) {
            out.push_back(narrow ? load<float>(array->raw.data() + 4 * i)
                                 : static_cast<float>(load<double>(array->raw.data() + 8 * i)));
        }
    } else {
        if (!array || !is_integer(array->element)) {
            return wrong_type(key, *value, "array of integers");
        }
        for (uint64_t i = 0; i < array->count; ++i) {
            const auto number = integer_at(*array, i);
            if (!number || !std::in_range<T>(*number)) {
                return error(key, fmt::format("array element {} out of range", i),
                             sizeof(T) == 8 ? "64 bits with sign" : "32 bits",
                             number ? std::to_string(*number) : "more than 2^63");
            }
            out.push_back(static_cast<T>(*number));
        }
    }
    return out;
}

template Result<std::vector<int32_t>> Metadata::get_array(std::string_view) const;
template Result<std::vector<uint32_t>> Metadata::get_array(std::string_view) const;
template Result<std::vector<int64_t>> Metadata::get_array(std::string_view) const;
template Result<std::vector<float>> Metadata::get_array(std::string_view) const;
template Result<std::vector<bool>> Metadata::get_array(std::string_view) const;
template Result<std::vector<std::string>> Metadata::get_array(std::string_view) const;

Result<std::vector<int64_t>> Metadata::get_per_layer(std::string_view key, int64_t n, int64_t min,
                                                     int64_t max) const {
    BIFOCAL_TRY(const Value* value, require(key));
    if (!std::holds_alternative<Array>(value->held)) {
        BIFOCAL_TRY(const int64_t number, get_integer(key, min, max));
        return std::vector<int64_t>(static_cast<size_t>(n), number);
    }
    BIFOCAL_TRY(std::vector<int64_t> numbers, get_array<int64_t>(key));
    if (std::ssize(numbers) != n) {
        return error(key, "one value per layer is needed", std::to_string(n) + " values",
                     std::to_string(numbers.size()));
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] < min || numbers[i] > max) {
            return error(key, fmt::format("array element {} out of range", i),
                         range_label(min, max), std::to_string(numbers[i]));
        }
    }
    return numbers;
}

}  // namespace bifocal::gguf
