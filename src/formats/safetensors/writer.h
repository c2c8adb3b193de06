// Writes safetensors files: the same tensors give the same bytes, and a file is whole or not there.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "core/tensor.h"

namespace bifocal::safetensors {

struct NamedTensor {
    std::string name;
    Tensor tensor;
};

using StringMap = std::map<std::string, std::string>;

// One file. Tensors are ordered by element size, largest first, then by name, so that each is
// aligned to its elements; the header is padded to 8 bytes.
Status write_file(const std::string& path, std::span<const NamedTensor> tensors,
                  const StringMap& metadata = {});

// "model.safetensors" in the folder, or, when the tensors take more than `max_shard_bytes`, shards
// of at most that (a larger tensor has one to itself) and their index, which is written last.
Status write_folder(const std::string& folder, std::span<const NamedTensor> tensors,
                    int64_t max_shard_bytes, const StringMap& metadata = {});

}  // namespace bifocal::safetensors
