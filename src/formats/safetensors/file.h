// safetensors::File: the tensors of one safetensors file, or of all shards of a Hugging Face
// folder. The files are mapped and checked as a whole when they are opened: every byte of data
// belongs to exactly one tensor.
//
// The format does not promise alignment, so the bytes of a tensor may be unaligned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bifocal/error.h"
#include "core/tensor.h"

namespace bifocal::safetensors {

struct TensorInfo {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;        // outermost first; empty for a scalar
    std::span<const std::byte> bytes;  // into the map; may be unaligned
    size_t shard = 0;                  // index into shards()
};

class File {
  public:
    static Result<File> open(const std::string& path);
    // The folder's model.safetensors.index.json and the shards it names, or else its
    // model.safetensors. Other files are left alone.
    static Result<File> open_folder(const std::string& folder);
    // One file that lies in memory; `owner`, if any, keeps the bytes alive, otherwise the caller
    // does.
    static Result<File> open_bytes(std::span<const std::byte> bytes, std::string name,
                                   std::shared_ptr<const void> owner = nullptr);

    // What was opened: a file or a folder.
    const std::string& path() const { return path_; }
    // Shard by shard, in the order of the bytes.
    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    const TensorInfo* find_tensor(std::string_view name) const;
    bool has_tensor(std::string_view name) const { return find_tensor(name) != nullptr; }
    // Shares the bytes and keeps the map alive.
    Result<Tensor> tensor(std::string_view name) const;
    // The strings under "__metadata__"; of several shards, the first one's value of a key.
    const std::map<std::string, std::string>& metadata() const { return metadata_; }
    const std::vector<std::string>& shards() const { return shard_paths_; }
    const std::vector<std::string>& warnings() const { return warnings_; }

  private:
    Status add_shard(std::span<const std::byte> bytes, const std::string& path,
                     std::shared_ptr<const void> owner);
    Status add_indexed_shards(const std::string& folder, const std::string& index_path);

    std::string path_;
    std::vector<TensorInfo> tensors_;
    std::unordered_map<std::string, size_t> tensor_index_;
    std::map<std::string, std::string> metadata_;
    std::vector<std::shared_ptr<const void>> owners_;  // one per shard
    std::vector<std::string> shard_paths_;
    std::vector<std::string> warnings_;
};

}  // namespace bifocal::safetensors
