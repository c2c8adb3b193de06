// gguf::File: a GGUF model (version 2 or 3, one file or a split one), checked as a whole when it is
// opened and read in place afterwards. Nothing in the file is believed before it is checked, so
// that a damaged or hostile file ends in an error that says where, never in a crash or a large
// allocation.
//
// The bytes stay mapped: tensors that must survive the file being cut short are to be copied
// (core/mapped_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bifocal/error.h"
#include "core/tensor.h"
#include "formats/gguf/metadata.h"

namespace bifocal::gguf {

struct TensorInfo {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;        // outermost first: the file's own order reversed
    uint64_t file_offset = 0;          // of the first byte, in its part
    std::span<const std::byte> bytes;  // into the map
    size_t part = 0;                   // of a split file
};

class File {
  public:
    // Opens a file, or all parts of a split one when given the first ("...-00001-of-00003.gguf").
    static Result<File> open(const std::string& path);
    // Reads a whole, unsplit file that lies in memory. `name` stands for it in errors; `owner`, if
    // any, keeps the bytes alive, otherwise the caller does.
    static Result<File> open_bytes(std::span<const std::byte> bytes, const std::string& name,
                                   std::shared_ptr<const void> owner = nullptr);

    const std::string& path() const { return metadata_.source(); }
    uint32_t version() const { return version_; }
    const Metadata& metadata() const { return metadata_; }
    // In the order of the file.
    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    const TensorInfo* find_tensor(std::string_view name) const;
    bool has_tensor(std::string_view name) const { return find_tensor(name) != nullptr; }
    // Shares the bytes and keeps the map alive.
    Result<Tensor> tensor(std::string_view name) const;
    // Harmless oddities: unused bytes between or after tensors. One line each.
    const std::vector<std::string>& warnings() const { return warnings_; }
    // Paths of all parts; one for a file that is not split.
    const std::vector<std::string>& parts() const { return part_paths_; }

  private:
    Status add_part(std::span<const std::byte> bytes, const std::string& name,
                    std::shared_ptr<const void> owner);
    Status add_other_parts(const std::string& first_path);

    uint32_t version_ = 0;
    Metadata metadata_;
    std::vector<TensorInfo> tensors_;
    std::unordered_map<std::string, size_t> tensor_index_;
    std::vector<std::shared_ptr<const void>> owners_;  // one per part
    std::vector<std::string> part_paths_;
    std::vector<std::string> warnings_;
};

// The path of part `index` (from 0) of `count`, for the path of the first part; empty when the path
// does not end in "-00001-of-COUNT.gguf".
std::string split_part_path(const std::string& first_path, int index, int count);

}  // namespace bifocal::gguf
