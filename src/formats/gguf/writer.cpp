#include "formats/gguf/writer.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/check.h"

namespace bifocal::gguf {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& out, T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), at, at + sizeof value);
}

void append_string(Bytes& out, std::string_view text) {
    append(out, static_cast<uint64_t>(text.size()));
    const auto* at = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), at, at + text.size());
}

template <class T>
Bytes bytes_of(T value) {
    Bytes out;
    append(out, value);
    return out;
}

Bytes array_head(ValueType element, uint64_t count) {
    Bytes out;
    append(out, element);
    append(out, count);
    return out;
}

template <class T>
Bytes array_of(ValueType element, std::span<const T> values) {
    Bytes out = array_head(element, values.size());
    for (T value : values) append(out, value);
    return out;
}

void pad(Bytes& out, uint64_t alignment) {
    out.resize((out.size() + alignment - 1) / alignment * alignment);
}

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment) {
    if (alignment != 32) add_u32("general.alignment", alignment);
}

void Writer::add_raw(std::string_view key, ValueType type, std::span<const std::byte> value) {
    append_string(metadata_, key);
    append(metadata_, type);
    metadata_.insert(metadata_.end(), value.begin(), value.end());
    ++n_keys_;
}

void Writer::add_u32(std::string_view key, uint32_t value) {
    add_raw(key, ValueType::u32, bytes_of(value));
}
void Writer::add_i32(std::string_view key, int32_t value) {
    add_raw(key, ValueType::i32, bytes_of(value));
}
void Writer::add_u64(std::string_view key, uint64_t value) {
    add_raw(key, ValueType::u64, bytes_of(value));
}
void Writer::add_f32(std::string_view key, float value) {
    add_raw(key, ValueType::f32, bytes_of(value));
}
void Writer::add_bool(std::string_view key, bool value) {
    add_raw(key, ValueType::boolean, bytes_of(static_cast<uint8_t>(value)));
}
void Writer::add_string(std::string_view key, std::string_view value) {
    Bytes out;
    append_string(out, value);
    add_raw(key, ValueType::string, out);
}
void Writer::add_u32_array(std::string_view key, std::span<const uint32_t> values) {
    add_raw(key, ValueType::array, array_of(ValueType::u32, values));
}
void Writer::add_i32_array(std::string_view key, std::span<const int32_t> values) {
    add_raw(key, ValueType::array, array_of(ValueType::i32, values));
}
void Writer::add_f32_array(std::string_view key, std::span<const float> values) {
    add_raw(key, ValueType::array, array_of(ValueType::f32, values));
}
void Writer::add_bool_array(std::string_view key, const std::vector<bool>& values) {
    Bytes out = array_head(ValueType::boolean, values.size());
    for (bool value : values) append(out, static_cast<uint8_t>(value));
    add_raw(key, ValueType::array, out);
}
void Writer::add_string_array(std::string_view key, const std::vector<std::string>& values) {
    Bytes out = array_head(ValueType::string, values.size());
    for (const std::string& value : values) append_string(out, value);
    add_raw(key, ValueType::array, out);
}

void Writer::add_tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                        std::span<const std::byte> bytes) {
    int64_t elems = 1;
    for (int64_t extent : shape) elems *= extent;
    BIFOCAL_CHECK(static_cast<int64_t>(bytes.size()) == dtype_bytes(dtype, elems),
                  "{} bytes for {} elements of {}", bytes.size(), elems, dtype_info(dtype).name);
    pad(data_, alignment_);
    append_string(directory_, name);
    append(directory_, static_cast<uint32_t>(shape.size()));
    for (size_t d = shape.size(); d-- > 0;) append(directory_, static_cast<uint64_t>(shape[d]));
    append(directory_, ggml_of_dtype(dtype));
    append(directory_, static_cast<uint64_t>(data_.size()));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    ++n_tensors_;
}

std::vector<std::byte> Writer::bytes() const {
    Bytes out;
    for (char c : {'G', 'G', 'U', 'F'}) append(out, c);
    append(out, uint32_t{3});
    append(out, n_tensors_);
    append(out, n_keys_);
    out.insert(out.end(), metadata_.begin(), metadata_.end());
    out.insert(out.end(), directory_.begin(), directory_.end());
    pad(out, alignment_);
    out.insert(out.end(), data_.begin(), data_.end());
    pad(out, alignment_);
    return out;
}

Status Writer::write(const std::string& path) const {
    const Bytes all = bytes();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
    file.close();
    if (!file) {
        return Error{.what = "cannot write the file", .where = path, .got = std::strerror(errno)};
    }
    return {};
}

}  // namespace bifocal::gguf
