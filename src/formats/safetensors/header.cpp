#include "formats/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/json/json.h"
#include "formats/safetensors/dtypes.h"
#include "formats/unicode/utf8.h"

namespace bifocal::safetensors {
namespace {

using json::Json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxRank = 8;
constexpr json::Limits kHeaderLimits{.depth = 8, .bytes = kMaxHeaderBytes};

struct Placed {
    TensorInfo info;
    uint64_t begin = 0;
    uint64_t end = 0;
};

Error error_at(const std::string& path, const std::string& tensor, std::string what,
               std::string expected = {}, std::string got = {}) {
    return {.what = std::move(what),
            .where = fmt::format("{}, tensor '{}'", path, tensor),
            .expected = std::move(expected),
            .got = std::move(got)};
}

// The header's JSON text, before anything in it is looked at.
Result<std::string_view> header_text(std::span<const std::byte> file, const std::string& path) {
    if (file.size() < 8) {
        return Error{.what = "not a safetensors file",
                     .where = path,
                     .expected = "at least 8 bytes",
                     .got = std::to_string(file.size())};
    }
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const uint64_t most = std::min<uint64_t>(kMaxHeaderBytes, file.size() - 8);
    if (length > most) {
        return Error{.what = "the header is longer than the file, or this is no safetensors file",
                     .where = path + ", offset 0",
                     .expected = fmt::format("at most {} bytes", most),
                     .got = std::to_string(length),
                     .hint = "the file may be incomplete"};
    }
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
    if (text.empty() || text[0] != '{') {
        return Error{.what = "not a safetensors header",
                     .where = path + ", offset 8",
                     .expected = "'{'",
                     .got = text.empty() ? "nothing" : "another byte"};
    }
    for (const size_t at : {unicode::find_invalid(text), text.find('\0')}) {
        if (at != std::string_view::npos) {
            return Error{.what = "the header is no text",
                         .where = fmt::format("{}, offset {}", path, 8 + at),
                         .expected = "UTF-8 without NUL"};
        }
    }
    return text;
}

// A non-negative integer, written as one.
std::optional<uint64_t> as_extent(const Json& json) {
    if (!json.is_number_unsigned()) return std::nullopt;
    return json.get<uint64_t>();
}

Result<Placed> read_entry(const std::string& name, const Json& entry, uint64_t data_bytes,
                          const std::string& path) {
    Placed placed;
    placed.info.name = name;
    if (!entry.is_object()) {
        return error_at(path, name, "not a tensor entry", "an object",
                        std::string(json::kind(entry)));
    }
    for (const auto& [key, value] : entry.items()) {
        if (key != "dtype" && key != "shape" && key != "data_offsets") {
            return error_at(path, name, "unknown field", "dtype, shape and data_offsets",
                            "'" + key + "'");
        }
    }
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) {
        return error_at(path, name, "the dtype is missing or no string");
    }
    const auto& dtype_name = dtype->get_ref<const std::string&>();
    const auto known = dtype_of_name(dtype_name);
    if (!known) {
        return error_at(path, name,
                        is_format_dtype(dtype_name) ? "unsupported dtype" : "unknown dtype",
                        fmt::format("one of {}", kSupportedDtypes), dtype_name);
    }
    placed.info.dtype = *known;

    const auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array()) {
        return error_at(path, name, "the shape is missing or no array");
    }
    if (shape->size() > kMaxRank) {
        return error_at(path, name, "too many dimensions", fmt::format("at most {}", kMaxRank),
                        std::to_string(shape->size()));
    }
    uint64_t elems = 1;
    for (const Json& element : *shape) {
        const auto extent = as_extent(element);
        if (!extent || *extent > INT64_MAX) {
            return error_at(path, name, "a dimension is not a size", "an integer in [0, 2^63)",
                            json::to_text(element));
        }
        if (__builtin_mul_overflow(elems, *extent, &elems)) {
            return error_at(path, name, "the number of elements overflows");
        }
        placed.info.shape.push_back(static_cast<int64_t>(*extent));
    }
    uint64_t bytes = 0;
    const auto element_bytes = static_cast<uint64_t>(dtype_info(*known).block_bytes);
    if (__builtin_mul_overflow(elems, element_bytes, &bytes)) {
        return error_at(path, name, "the tensor's size overflows");
    }

    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) {
        return error_at(path, name, "data_offsets is missing or no pair");
    }
    const auto begin = as_extent((*offsets)[0]);
    const auto end = as_extent((*offsets)[1]);
    if (!begin || !end) return error_at(path, name, "data_offsets are no offsets");
    if (*begin > *end || *end > data_bytes) {
        return error_at(path, name, "the tensor lies outside the file",
                        fmt::format("offsets in order, up to {}", data_bytes),
                        fmt::format("[{}, {}]", *begin, *end));
    }
    if (*end - *begin != bytes) {
        return error_at(path, name, "shape and dtype do not fit data_offsets",
                        fmt::format("{} bytes", bytes), std::to_string(*end - *begin));
    }
    placed.begin = *begin;
    placed.end = *end;
    return placed;
}

// Every byte belongs to exactly one tensor: no overlap, no hole, nothing at the end.
Status check_cover(const std::vector<Placed>& sorted, uint64_t data_bytes,
                   const std::string& path) {
    uint64_t covered = 0;
    for (const Placed& placed : sorted) {
        if (placed.begin != covered) {
            return error_at(path, placed.info.name,
                            placed.begin < covered ? "the tensor overlaps the one before it"
                                                   : "unused bytes before the tensor",
                            fmt::format("offset {}", covered), std::to_string(placed.begin));
        }
        covered = placed.end;
    }
    if (covered != data_bytes) {
        return Error{.what = "unused bytes after the last tensor",
                     .where = path,
                     .expected = fmt::format("{} bytes of data", covered),
                     .got = std::to_string(data_bytes)};
    }
    return {};
}

Status read_metadata(const Json& json, const std::string& path,
                     std::map<std::string, std::string>& metadata) {
    BIFOCAL_TRY(const json::Fields fields, json::Fields::of(json, path + ", __metadata__"));
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string()) {
            return fields.error(key, "the value has the wrong type", "a string",
                                std::string(json::kind(value)));
        }
        metadata.emplace(key, value.get<std::string>());
    }
    return {};
}

}  // namespace

Result<Header> read_header(std::span<const std::byte> file, const std::string& path) {
    BIFOCAL_TRY(const std::string_view text, header_text(file, path));
    BIFOCAL_TRY(const Json root, json::parse(text, path + ", header", kHeaderLimits));
    const auto data = file.subspan(8 + text.size());

    Header header;
    std::vector<Placed> placed;
    for (const auto& [name, entry] : root.items()) {
        if (name == "__metadata__") {
            BIFOCAL_TRY_STATUS(read_metadata(entry, path, header.metadata));
            continue;
        }
        BIFOCAL_TRY(Placed tensor, read_entry(name, entry, data.size(), path));
        placed.push_back(std::move(tensor));
    }
    std::ranges::sort(placed, [](const Placed& a, const Placed& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    BIFOCAL_TRY_STATUS(check_cover(placed, data.size(), path));
    for (Placed& tensor : placed) {
        tensor.info.bytes = data.subspan(tensor.begin, tensor.end - tensor.begin);
        header.tensors.push_back(std::move(tensor.info));
    }
    return header;
}

}  // namespace bifocal::safetensors
