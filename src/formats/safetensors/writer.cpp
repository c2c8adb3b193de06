#include "formats/safetensors/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/json/json.h"
#include "formats/safetensors/dtypes.h"
#include "formats/unicode/utf8.h"

namespace bifocal::safetensors {
namespace {

using OrderedJson = nlohmann::ordered_json;

Status check(std::span<const NamedTensor> sorted) {
    for (size_t i = 0; i < sorted.size(); ++i) {
        const auto& [name, tensor] = sorted[i];
        const std::string where = fmt::format("tensor '{}'", name);
        if (!name_of_dtype(tensor.dtype)) {
            return Error{.what = "safetensors has no such type",
                         .where = where,
                         .expected = fmt::format("one of {}", kSupportedDtypes),
                         .got = std::string(dtype_info(tensor.dtype).name)};
        }
        if (name == "__metadata__" || !unicode::is_valid(name)) {
            return Error{.what = "not a possible tensor name", .where = where};
        }
    }
    return {};
}

std::vector<NamedTensor> in_order(std::span<const NamedTensor> tensors) {
    std::vector<NamedTensor> sorted(tensors.begin(), tensors.end());
    std::ranges::sort(sorted, [](const NamedTensor& a, const NamedTensor& b) {
        const int a_bytes = dtype_info(a.tensor.dtype).block_bytes;
        const int b_bytes = dtype_info(b.tensor.dtype).block_bytes;
        return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
    });
    return sorted;
}

Status write_sorted(const std::string& path, std::span<const NamedTensor> sorted,
                    const StringMap& metadata) {
    BIFOCAL_TRY_STATUS(check(sorted));
    OrderedJson header = OrderedJson::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::vector<std::span<const std::byte>> parts(2);
    size_t offset = 0;
    for (const auto& [name, tensor] : sorted) {
        if (header.contains(name)) {
            return Error{.what = "the tensor occurs twice",
                         .where = fmt::format("{}, tensor '{}'", path, name)};
        }
        header[name] = {{"dtype", *name_of_dtype(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"data_offsets", {offset, offset + tensor.bytes.size()}}};
        offset += tensor.bytes.size();
        parts.push_back(tensor.bytes);
    }
    std::string text = json::to_text(header);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t length = text.size();
    parts[0] = std::as_bytes(std::span(&length, 1));
    parts[1] = std::as_bytes(std::span(text));
    return write_file_atomically(path, parts);
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

Status write_file(const std::string& path, std::span<const NamedTensor> tensors,
                  const StringMap& metadata) {
    return write_sorted(path, in_order(tensors), metadata);
}

Status write_folder(const std::string& folder, std::span<const NamedTensor> tensors,
                    int64_t max_shard_bytes, const StringMap& metadata) {
    const std::vector<NamedTensor> sorted = in_order(tensors);
    const std::filesystem::path home(folder);

    std::vector<std::span<const NamedTensor>> shards;
    size_t begin = 0;
    int64_t shard_bytes = 0, total = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
        const auto bytes = static_cast<int64_t>(sorted[i].tensor.bytes.size());
        if (i > begin && bytes > max_shard_bytes - shard_bytes) {
            shards.push_back(std::span(sorted).subspan(begin, i - begin));
            begin = i;
            shard_bytes = 0;
        }
        shard_bytes += bytes;
        total += bytes;
    }
    shards.push_back(std::span(sorted).subspan(begin));
    if (shards.size() == 1) {
        return write_sorted((home / "model.safetensors").string(), sorted, metadata);
    }

    OrderedJson weight_map = OrderedJson::object();
    for (size_t i = 0; i < shards.size(); ++i) {
        const std::string name =
            fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
        BIFOCAL_TRY_STATUS(write_sorted((home / name).string(), shards[i], metadata));
        for (const NamedTensor& tensor : shards[i]) {
            if (weight_map.contains(tensor.name)) {
                return Error{.what = "the tensor occurs twice",
                             .where = fmt::format("{}, tensor '{}'", folder, tensor.name)};
            }
            weight_map[tensor.name] = name;
        }
    }
    OrderedJson index = OrderedJson::object();
    index["metadata"] = {{"total_size", total}};
    index["weight_map"] = std::move(weight_map);
    const std::string text = json::to_text(index, 2) + "\n";
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
    return write_file_atomically((home / "model.safetensors.index.json").string(), parts);
}

}  // namespace bifocal::safetensors
