// Reads one GGUF file, which may be a part of a split model, into metadata and a tensor directory.
// The steps follow the order of the bytes: header, metadata, directory, data.
#pragma once

#include "formats/gguf/cursor.h"
#include "formats/gguf/file.h"

namespace bifocal::gguf {

struct Part {
    uint32_t version = 0;
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    std::vector<std::string> warnings;
};

class PartReader {
  public:
    PartReader(std::span<const std::byte> bytes, std::string name)
        : bytes_(bytes), name_(std::move(name)), cursor_(bytes, name_) {}

    Result<Part> read();

  private:
    Status read_header();
    Status read_metadata();
    Result<Value> read_value(ValueType type);
    Result<Value> read_array(uint64_t offset);
    Result<ValueType> read_value_type(const char* what);
    Status read_alignment();
    Status read_directory();
    Status read_tensor_info(TensorInfo& tensor);
    Status place_tensors();

    std::span<const std::byte> bytes_;
    std::string name_;
    Cursor cursor_;
    Part part_;
    uint64_t n_tensors_ = 0;
    uint64_t n_keys_ = 0;
    uint64_t alignment_ = 32;
    // Per tensor, beside part_.tensors: offset within the data, length, and where its entry stands.
    struct Placement {
        uint64_t offset;
        uint64_t length;
        uint64_t entry;
    };
    std::vector<Placement> placements_;
};

}  // namespace bifocal::gguf
