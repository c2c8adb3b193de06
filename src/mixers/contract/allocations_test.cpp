// Replaces operator new of the whole test program by one that counts.
#include "mixers/contract/allocations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void* counted(std::size_t bytes, std::size_t alignment) {
    count.fetch_add(1, std::memory_order_relaxed);
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes > 0 ? bytes : 1)
                                                     : std::aligned_alloc(alignment, rounded);
    if (p == nullptr) std::abort();
    return p;
}

}  // namespace

void* operator new(std::size_t bytes) {
    return counted(bytes, 1);
}
void* operator new[](std::size_t bytes) {
    return counted(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete[](void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}

namespace bifocal::contract {

int64_t allocations() {
    return count.load(std::memory_order_relaxed);
}

TEST(Allocations, AreCounted) {
    const int64_t before = allocations();
    const auto one = std::make_unique<int>(1);
    EXPECT_EQ(allocations() - before, 1) << *one;
}

}  // namespace bifocal::contract
