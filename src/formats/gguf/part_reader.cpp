#include "formats/gguf/part_reader.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "formats/unicode/utf8.h"

static_assert(std::endian::native == std::endian::little,
              "the reader copies little-endian numbers");

namespace bifocal::gguf {
namespace {

constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;                 // empty key, type, one-byte value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // a name of one byte, one dimension
constexpr uint64_t kMaxKeyLength = 65535;
constexpr uint64_t kMaxStringLength = 64 << 20;
constexpr uint64_t kMaxTensorNameLength = 1024;
constexpr uint64_t kMaxAlignment = 1 << 20;

}  // namespace

Result<Part> PartReader::read() {
    BIFOCAL_TRY_STATUS(read_header());
    BIFOCAL_TRY_STATUS(read_metadata());
    BIFOCAL_TRY_STATUS(read_alignment());
    BIFOCAL_TRY_STATUS(read_directory());
    BIFOCAL_TRY_STATUS(place_tensors());
    return std::move(part_);
}

Status PartReader::read_header() {
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
        return cursor_.error("not a GGUF file", "the bytes 'GGUF'",
                             bytes_.empty() ? "an empty file" : "something else");
    }
    if (bytes_.size() < 24) {
        return cursor_.error("the file ends within the header", "at least 24 bytes",
                             std::to_string(bytes_.size()), "the file is incomplete");
    }
    BIFOCAL_TRY(const uint32_t magic, cursor_.read<uint32_t>("the header"));
    static_cast<void>(magic);
    const uint64_t at = cursor_.position();
    BIFOCAL_TRY(part_.version, cursor_.read<uint32_t>("the header"));
    if (part_.version == 1) {
        return cursor_.error_at(at, "GGUF version 1 is not supported", "version 2 or 3", "1",
                                "convert the model again with a current converter");
    }
    if (part_.version != 0 && (part_.version & 0xffff) == 0) {
        return cursor_.error_at(at, "the file is big-endian", "a little-endian GGUF file",
                                fmt::format("version {:#x}", part_.version),
                                "convert it for this byte order");
    }
    if (part_.version != 2 && part_.version != 3) {
        return cursor_.error_at(at, "unknown GGUF version", "version 2 or 3",
                                std::to_string(part_.version));
    }
    BIFOCAL_TRY(n_tensors_, cursor_.read<uint64_t>("the header"));
    BIFOCAL_TRY(n_keys_, cursor_.read<uint64_t>("the header"));
    // Bounded by what the rest of the file can hold, before anything is allocated.
    const uint64_t most_tensors = std::min(kMaxTensors, cursor_.remaining() / kMinTensorBytes);
    if (n_tensors_ > most_tensors) {
        return cursor_.error_at(8, "impossible number of tensors",
                                fmt::format("at most {} in a file of this size", most_tensors),
                                std::to_string(n_tensors_));
    }
    const uint64_t most_keys = std::min(kMaxKeys, cursor_.remaining() / kMinKeyBytes);
    if (n_keys_ > most_keys) {
        return cursor_.error_at(16, "impossible number of metadata keys",
                                fmt::format("at most {} in a file of this size", most_keys),
                                std::to_string(n_keys_));
    }
    return {};
}

Status PartReader::read_metadata() {
    part_.metadata = Metadata(name_);
    for (uint64_t i = 0; i < n_keys_; ++i) {
        cursor_.set_subject(fmt::format("metadata key {}", i));
        const uint64_t at = cursor_.position();
        BIFOCAL_TRY(const std::string_view key, cursor_.read_string(kMaxKeyLength, "a key"));
        if (!unicode::is_valid(key)) return cursor_.error_at(at, "the key is not valid UTF-8");
        cursor_.set_subject(fmt::format("key '{}'", key));
        BIFOCAL_TRY(const ValueType type, read_value_type("value type"));
        BIFOCAL_TRY(Value value, read_value(type));
        if (!part_.metadata.add(std::string(key), std::move(value))) {
            return cursor_.error_at(at, "the key occurs twice");
        }
    }
    cursor_.set_subject({});
    return {};
}

Result<ValueType> PartReader::read_value_type(const char* what) {
    const uint64_t at = cursor_.position();
    BIFOCAL_TRY(const uint32_t id, cursor_.read<uint32_t>("a value type"));
    if (id >= kValueTypes) {
        return cursor_.error_at(at, fmt::format("unknown {}", what),
                                fmt::format("0 to {}", kValueTypes - 1), std::to_string(id));
    }
    return static_cast<ValueType>(id);
}

Result<Value> PartReader::read_value(ValueType type) {
    const uint64_t offset = cursor_.position();
    Value value{type, offset, int64_t{0}};
    constexpr const char* kWhat = "a metadata value";
    const auto read_number = [&]<class T, class Held>(T, Held) -> Status {
        BIFOCAL_TRY(const T number, cursor_.read<T>(kWhat));
        value.held = static_cast<Held>(number);
        return {};
    };
    Status status;
    switch (type) {
        case ValueType::u8:
            status = read_number(uint8_t{}, uint64_t{});
            break;
        case ValueType::i8:
            status = read_number(int8_t{}, int64_t{});
            break;
        case ValueType::u16:
            status = read_number(uint16_t{}, uint64_t{});
            break;
        case ValueType::i16:
            status = read_number(int16_t{}, int64_t{});
            break;
        case ValueType::u32:
            status = read_number(uint32_t{}, uint64_t{});
            break;
        case ValueType::i32:
            status = read_number(int32_t{}, int64_t{});
            break;
        case ValueType::u64:
            status = read_number(uint64_t{}, uint64_t{});
            break;
        case ValueType::i64:
            status = read_number(int64_t{}, int64_t{});
            break;
        case ValueType::f32:
            status = read_number(float{}, double{});
            break;
        case ValueType::f64:
            status = read_number(double{}, double{});
            break;
        case ValueType::boolean: {
            BIFOCAL_TRY(const uint8_t flag, cursor_.read<uint8_t>(kWhat));
            if (flag > 1) {
                return cursor_.error_at(offset, "not a bool", "0 or 1", std::to_string(flag));
            }
            value.held = flag == 1;
            break;
        }
        case ValueType::string: {
            BIFOCAL_TRY(const std::string_view text, cursor_.read_string(kMaxStringLength, kWhat));
            const size_t invalid = unicode::find_invalid(text);
            if (invalid != std::string_view::npos) {
                return cursor_.error_at(offset + 8 + invalid, "the text is not valid UTF-8");
            }
            value.held = std::string(text);
            break;
        }
        case ValueType::array:
            return read_array(offset);
    }
    if (!status.ok()) return std::move(status).error();
    return value;
}

Result<Value> PartReader::read_array(uint64_t offset) {
    BIFOCAL_TRY(const ValueType element, read_value_type("array element type"));
    if (element == ValueType::array) {
        return cursor_.error_at(offset, "arrays of arrays are not supported");
    }
    Array array;
    array.element = element;
    BIFOCAL_TRY(array.count, cursor_.read<uint64_t>("an array"));
    const bool is_text = element == ValueType::string;
    const uint64_t element_bytes = is_text ? 8 : static_cast<uint64_t>(value_type_bytes(element));
    if (array.count > cursor_.remaining() / element_bytes) {
        return cursor_.error_at(
            offset, "the array is longer than the file",
            fmt::format("at most {} elements", cursor_.remaining() / element_bytes),
            std::to_string(array.count));
    }
    if (is_text) {
        for (uint64_t i = 0; i < array.count; ++i) {
            BIFOCAL_TRY(const std::string_view text,
                        cursor_.read_string(kMaxStringLength, "an array of strings"));
            array.strings.push_back(text);
        }
    } else {
        const uint64_t at = cursor_.position();
        BIFOCAL_TRY(array.raw, cursor_.take(array.count * element_bytes, "an array"));
        if (element == ValueType::boolean) {
            for (size_t i = 0; i < array.raw.size(); ++i) {
                if (array.raw[i] > std::byte{1}) {
                    return cursor_.error_at(at + i, "not a bool", "0 or 1",
                                            std::to_string(static_cast<int>(array.raw[i])));
                }
            }
        }
    }
    return Value{ValueType::array, offset, std::move(array)};
}

Status PartReader::read_alignment() {
    const Value* value = part_.metadata.find("general.alignment");
    if (!value) return {};
    const auto* number = std::get_if<uint64_t>(&value->held);
    if (value->type != ValueType::u32 || !number) {
        return part_.metadata.error("general.alignment", "metadata value of the wrong type", "u32",
                                    value->label());
    }
    if (*number < 8 || *number > kMaxAlignment || !std::has_single_bit(*number)) {
        return part_.metadata.error("general.alignment", "impossible alignment",
                                    fmt::format("a power of two in [8, {}]", kMaxAlignment),
                                    std::to_string(*number));
    }
    alignment_ = *number;
    return {};
}

Status PartReader::read_directory() {
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < n_tensors_; ++i) {
        cursor_.set_subject(fmt::format("tensor {}", i));
        TensorInfo tensor;
        BIFOCAL_TRY_STATUS(read_tensor_info(tensor));
        part_.tensors.push_back(std::move(tensor));
    }
    cursor_.set_subject({});
    for (size_t i = 0; i < part_.tensors.size(); ++i) {
        if (!names.insert(part_.tensors[i].name).second) {
            cursor_.set_subject(fmt::format("tensor '{}'", part_.tensors[i].name));
            return cursor_.error_at(placements_[i].entry, "the tensor name occurs twice");
        }
    }
    return {};
}

// name, n_dims u32, dims u64 each (innermost first), type u32, offset u64.
Status PartReader::read_tensor_info(TensorInfo& tensor) {
    const uint64_t entry = cursor_.position();
    BIFOCAL_TRY(const std::string_view name,
                cursor_.read_string(kMaxTensorNameLength, "a tensor name"));
    if (name.empty()) return cursor_.error_at(entry, "the tensor has no name");
    if (!unicode::is_valid(name)) {
        return cursor_.error_at(entry, "the tensor name is not valid UTF-8");
    }
    tensor.name = name;
    cursor_.set_subject(fmt::format("tensor '{}'", name));

    uint64_t at = cursor_.position();
    BIFOCAL_TRY(const uint32_t n_dims, cursor_.read<uint32_t>("a tensor entry"));
    if (n_dims < 1 || n_dims > 4) {
        return cursor_.error_at(at, "impossible number of dimensions", "1 to 4",
                                std::to_string(n_dims));
    }
    uint64_t elems = 1;
    for (uint32_t d = 0; d < n_dims; ++d) {
        at = cursor_.position();
        BIFOCAL_TRY(const uint64_t extent, cursor_.read<uint64_t>("a tensor entry"));
        if (extent == 0) return cursor_.error_at(at, "a dimension is 0", "at least 1", "0");
        if (__builtin_mul_overflow(elems, extent, &elems) || elems > INT64_MAX) {
            return cursor_.error_at(at, "the number of elements overflows", "less than 2^63",
                                    fmt::format("a dimension of {}", extent));
        }
        tensor.shape.push_back(static_cast<int64_t>(extent));
    }
    const auto row = static_cast<uint64_t>(tensor.shape.front());
    std::reverse(tensor.shape.begin(), tensor.shape.end());

    at = cursor_.position();
    BIFOCAL_TRY(const uint32_t type, cursor_.read<uint32_t>("a tensor entry"));
    const auto dtype = dtype_of_ggml(type);
    if (!dtype) {
        return cursor_.error_at(at, "unsupported tensor type", "one of " + supported_ggml_types(),
                                ggml_type_label(type), "requantise the model to a supported type");
    }
    tensor.dtype = *dtype;
    const DTypeInfo& info = dtype_info(*dtype);
    const auto block_elems = static_cast<uint64_t>(info.block_elems);
    if (row % block_elems != 0) {
        return cursor_.error_at(at, "rows do not fill whole blocks",
                                fmt::format("a row length divisible by {}", block_elems),
                                fmt::format("{} elements of {}", row, info.name));
    }
    uint64_t length = 0;
    if (__builtin_mul_overflow(elems / block_elems, static_cast<uint64_t>(info.block_bytes),
                               &length) ||
        length > INT64_MAX) {
        return cursor_.error_at(at, "the tensor's size overflows", "less than 2^63 bytes",
                                fmt::format("{} elements of {}", elems, info.name));
    }
    BIFOCAL_TRY(const uint64_t offset, cursor_.read<uint64_t>("a tensor entry"));
    placements_.push_back({offset, length, entry});
    return {};
}

Status PartReader::place_tensors() {
    if (part_.tensors.empty()) return {};
    const uint64_t padding = (alignment_ - cursor_.position() % alignment_) % alignment_;
    if (padding > cursor_.remaining()) {
        return cursor_.error("the file ends before the tensor data",
                             fmt::format("{} bytes of padding", padding),
                             fmt::format("{}", cursor_.remaining()), "the file is incomplete");
    }
    const uint64_t data_start = cursor_.position() + padding;
    const uint64_t data_bytes = bytes_.size() - data_start;
    for (size_t i = 0; i < placements_.size(); ++i) {
        const Placement& place = placements_[i];
        TensorInfo& tensor = part_.tensors[i];
        cursor_.set_subject(fmt::format("tensor '{}'", tensor.name));
        if (place.offset % alignment_ != 0) {
            return cursor_.error_at(place.entry, "the tensor's offset is not aligned",
                                    fmt::format("a multiple of {}", alignment_),
                                    std::to_string(place.offset));
        }
        if (place.offset > data_bytes || place.length > data_bytes - place.offset) {
            return cursor_.error_at(
                place.entry, "the tensor lies outside the file",
                fmt::format("{} bytes at offset {} of the data", place.length, place.offset),
                fmt::format("{} bytes of data", data_bytes), "the file is incomplete or damaged");
        }
        tensor.file_offset = data_start + place.offset;
        tensor.bytes = bytes_.subspan(tensor.file_offset, place.length);
    }

    std::vector<size_t> order(placements_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return placements_[a].offset < placements_[b].offset; });
    uint64_t end = 0;         // of the tensor before
    uint64_t padded_end = 0;  // rounded up; every offset is aligned, so no gap is shorter
    const auto note_gap = [&](uint64_t next, const std::string& before) {
        if (next <= padded_end) return;
        part_.warnings.push_back(fmt::format("{}: {} unused bytes {} (offset {})", name_,
                                             next - padded_end, before, data_start + padded_end));
    };
    for (size_t i : order) {
        const Placement& place = placements_[i];
        if (place.offset < end) {
            cursor_.set_subject(fmt::format("tensor '{}'", part_.tensors[i].name));
            return cursor_.error_at(place.entry, "the tensor overlaps the one before it",
                                    fmt::format("an offset of at least {}", end),
                                    std::to_string(place.offset));
        }
        note_gap(place.offset, fmt::format("before tensor '{}'", part_.tensors[i].name));
        end = place.offset + place.length;  // within the file, so the sum cannot wrap
        padded_end = end + (alignment_ - end % alignment_) % alignment_;
    }
    note_gap(data_bytes, "after the last tensor");
    return {};
}

}  // namespace bifocal::gguf
