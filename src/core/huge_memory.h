// Memory for packed weights: what is allocated one after the other lies side by side in huge pages.
// Decode streams all weights once a token; with pages of 4 KiB it loses a fifth of the bandwidth to
// address translation, and prefetching past the end of one matrix brings in the next.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/buffer.h"

namespace bifocal {

struct HugeMemory {
    std::shared_ptr<void> owner;
    std::span<std::byte> bytes;  // 64-byte aligned, zeroed
};

// Thread-safe. Aborts when memory runs out.
HugeMemory allocate_huge(size_t bytes);

// A vector of what is streamed beside packed weights, in the same pages.
template <class T>
struct HugeAllocator {
    using value_type = T;
    // The owner stands before the elements.
    static constexpr size_t kHeader = align_up(sizeof(std::shared_ptr<void>));

    HugeAllocator() = default;
    template <class U>
    HugeAllocator(const HugeAllocator<U>&) {}

    T* allocate(size_t n) {
        HugeMemory memory = allocate_huge(kHeader + n * sizeof(T));
        std::byte* const at = memory.bytes.data();
        new (at) std::shared_ptr<void>(std::move(memory.owner));
        return reinterpret_cast<T*>(at + kHeader);
    }
    void deallocate(T* elements, size_t) {
        auto* const header = reinterpret_cast<std::byte*>(elements) - kHeader;
        std::destroy_at(std::launder(reinterpret_cast<std::shared_ptr<void>*>(header)));
    }
    template <class U>
    bool operator==(const HugeAllocator<U>&) const {
        return true;
    }
};
template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace bifocal
