// Memory for packed weights: what is allocated one after the other lies side by side in huge pages.
// Decode streams all weights once a token; with pages of 4 KiB it loses a fifth of the bandwidth to
// address translation, and prefetching past the end of one matrix brings in the next.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace bifocal {

struct HugeMemory {
    std::shared_ptr<void> owner;
    std::span<std::byte> bytes;  // 64-byte aligned, zeroed
};

// Thread-safe. Aborts when memory runs out.
HugeMemory allocate_huge(size_t bytes);

}  // namespace bifocal
