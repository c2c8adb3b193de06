#include "formats/safetensors/file.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "core/json/json.h"
#include "core/mapped_file.h"
#include "formats/safetensors/header.h"

namespace bifocal::safetensors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Names come from the index, so they must not lead out of its folder by themselves...
bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// ... nor through a link, except where the Hugging Face cache keeps its files:
// models--X/snapshots/REVISION/NAME -> models--X/blobs/HASH.
Status check_link(const fs::path& folder, const fs::path& file) {
    std::error_code code;
    const fs::path home = fs::canonical(folder, code);
    const fs::path target = fs::canonical(file, code);
    if (code) {
        return Error{.what = "cannot find the file", .where = file.string(), .got = code.message()};
    }
    const fs::path parent = target.parent_path();
    const bool is_cached = home.parent_path().filename() == "snapshots" &&
                           parent == home.parent_path().parent_path() / "blobs";
    if (parent != home && !is_cached) {
        return Error{.what = "the file is a link out of the model's folder",
                     .where = file.string(),
                     .got = target.string()};
    }
    return {};
}

}  // namespace

Result<File> File::open_bytes(std::span<const std::byte> bytes, std::string name,
                              std::shared_ptr<const void> owner) {
    File file;
    BIFOCAL_TRY_STATUS(file.add_shard(bytes, name, std::move(owner)));
    file.path_ = std::move(name);
    return file;
}

Result<File> File::open(const std::string& path) {
    BIFOCAL_TRY(const auto map, MappedFile::open(path));
    return open_bytes(map->bytes(), path, map);
}

Result<File> File::open_folder(const std::string& folder) {
    const fs::path home(folder);
    std::error_code code;
    if (!fs::is_directory(home, code)) {
        return Error{.what = "not a folder", .where = folder, .expected = "a model's folder"};
    }
    const fs::path index = home / kIndex;
    const fs::path single = home / kSingle;
    File file;
    if (fs::exists(index, code)) {
        BIFOCAL_TRY_STATUS(check_link(home, index));
        BIFOCAL_TRY_STATUS(file.add_indexed_shards(folder, index.string()));
    } else if (fs::exists(single, code)) {
        BIFOCAL_TRY_STATUS(check_link(home, single));
        BIFOCAL_TRY(file, open(single.string()));
    } else {
        return Error{.what = "the folder holds no weights",
                     .where = folder,
                     .expected = fmt::format("{} or {}", kSingle, kIndex)};
    }
    file.path_ = folder;
    return file;
}

Status File::add_shard(std::span<const std::byte> bytes, const std::string& path,
                       std::shared_ptr<const void> owner) {
    BIFOCAL_TRY(Header header, read_header(bytes, path));
    const size_t shard = shard_paths_.size();
    for (TensorInfo& tensor : header.tensors) {
        tensor.shard = shard;
        const auto [at, is_new] = tensor_index_.emplace(tensor.name, tensors_.size());
        if (!is_new) {
            return Error{.what = "the tensor occurs in two shards",
                         .where = fmt::format("{}, tensor '{}'", path, tensor.name),
                         .got = shard_paths_[tensors_[at->second].shard] + " has it too"};
        }
        tensors_.push_back(std::move(tensor));
    }
    metadata_.merge(header.metadata);
    owners_.push_back(std::move(owner));
    shard_paths_.push_back(path);
    return {};
}

Status File::add_indexed_shards(const std::string& folder, const std::string& index_path) {
    BIFOCAL_TRY(const json::Json index, json::read_file(index_path));
    BIFOCAL_TRY(const json::Fields root, json::Fields::of(index, index_path));
    BIFOCAL_TRY(const auto map, root.object("weight_map"));
    if (!map) return root.error("weight_map", "the key is missing");

    std::map<std::string, std::string> shard_of;
    std::set<std::string> names;
    for (const auto& [tensor, value] : map->json().items()) {
        if (!value.is_string()) {
            return map->error(tensor, "the value has the wrong type", "a file name",
                              std::string(json::kind(value)));
        }
        const auto& name = value.get_ref<const std::string&>();
        if (!is_plain_name(name)) {
            return map->error(tensor, "not a plain file name", "a name without a folder", name);
        }
        names.insert(name);
        shard_of.emplace(tensor, name);
    }
    for (const std::string& name : names) {
        const fs::path path = fs::path(folder) / name;
        BIFOCAL_TRY_STATUS(check_link(folder, path));
        BIFOCAL_TRY(const auto file, MappedFile::open(path.string()));
        BIFOCAL_TRY_STATUS(add_shard(file->bytes(), path.string(), file));
    }
    for (const auto& [tensor, name] : shard_of) {
        const TensorInfo* info = find_tensor(tensor);
        if (!info || fs::path(shard_paths_[info->shard]).filename() != name) {
            return map->error(tensor, "the tensor is not in the shard that the index names", name,
                              info ? shard_paths_[info->shard] : "no shard has it");
        }
    }

    int64_t total = 0;
    for (const TensorInfo& tensor : tensors_) {
        total += static_cast<int64_t>(tensor.bytes.size());
        if (!shard_of.contains(tensor.name)) {
            warnings_.push_back(fmt::format("{}: tensor '{}' is not in the index",
                                            shard_paths_[tensor.shard], tensor.name));
        }
    }
    BIFOCAL_TRY(const auto metadata, root.object("metadata"));
    if (metadata) {
        // Writers count tied tensors differently, and some write a fraction.
        BIFOCAL_TRY(const auto stated, metadata->number("total_size"));
        if (stated && *stated != static_cast<double>(total)) {
            warnings_.push_back(fmt::format("{}: total_size says {} bytes, the tensors have {}",
                                            index_path, *stated, total));
        }
    }
    return {};
}

const TensorInfo* File::find_tensor(std::string_view name) const {
    const auto at = tensor_index_.find(std::string(name));
    return at == tensor_index_.end() ? nullptr : &tensors_[at->second];
}

Result<Tensor> File::tensor(std::string_view name) const {
    const TensorInfo* info = find_tensor(name);
    if (!info) {
        return Error{.what = "the tensor is missing",
                     .where = fmt::format("{}, tensor '{}'", path_, name)};
    }
    return Tensor{info->dtype, info->shape, info->bytes, owners_[info->shard]};
}

}  // namespace bifocal::safetensors
