// MappedFile: a whole file as read-only bytes, mapped for as long as someone holds it.
// A file that is cut short while it is mapped raises SIGBUS on the next touch of the lost pages; no
// reader can prevent that. What must survive it is copied at load.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "bifocal/error.h"

namespace bifocal {

class MappedFile {
  public:
    // An empty file maps to no bytes; a folder or a device is an error.
    static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::string& path() const { return path_; }
    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    MappedFile(std::string path, std::span<const std::byte> bytes)
        : path_(std::move(path)), bytes_(bytes) {}

    std::string path_;
    std::span<const std::byte> bytes_;
};

}  // namespace bifocal
