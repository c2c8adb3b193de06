// One file's header: its length, its JSON, and where each tensor lies.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "formats/safetensors/file.h"

namespace bifocal::safetensors {

struct Header {
    std::vector<TensorInfo> tensors;  // in the order of their bytes
    std::map<std::string, std::string> metadata;
};

Result<Header> read_header(std::span<const std::byte> file, const std::string& path);

}  // namespace bifocal::safetensors
