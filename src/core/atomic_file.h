// Writes a file whole or not at all: beside the target, synced, then renamed over it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "bifocal/error.h"

namespace bifocal {

// The file's bytes are the parts one after the other. After an error, or a kill at any moment, the
// old file is as it was.
Status write_file_atomically(const std::string& path,
                             std::span<const std::span<const std::byte>> parts);

}  // namespace bifocal
