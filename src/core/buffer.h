// Buffer: owned, 64-byte aligned, zeroed bytes. Workspace: a stack of scratch arrays in one Buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/check.h"

namespace bifocal {

inline constexpr size_t kAlignment = 64;  // a cache line and an AVX-512 register
inline constexpr size_t align_up(size_t n) {
    return (n + kAlignment - 1) / kAlignment * kAlignment;
}

class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t bytes);
    ~Buffer();
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    size_t size() const { return size_; }
    std::span<std::byte> bytes() { return {data_, size_}; }
    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    void swap(Buffer& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

// Scratch memory of one step. Sized once from workspace_bytes() declarations; take() never
// allocates, and going over the size is a bug that aborts. Not thread-safe: taken by the caller of
// a parallel loop, not inside it.
class Workspace {
  public:
    explicit Workspace(size_t bytes) : buffer_(bytes) {}

    // `n` uninitialised elements, 64-byte aligned.
    template <class T>
    std::span<T> take(int64_t n) {
        const size_t bytes = align_up(static_cast<size_t>(n) * sizeof(T));
        BIFOCAL_CHECK(bytes <= buffer_.size() - used_,
                      "workspace of {} bytes, {} used, {} more asked", buffer_.size(), used_,
                      bytes);
        T* data = reinterpret_cast<T*>(buffer_.data() + used_);
        used_ += bytes;
        if (used_ > high_water_) high_water_ = used_;
        return {data, static_cast<size_t>(n)};
    }
    size_t size() const { return buffer_.size(); }
    size_t used() const { return used_; }
    size_t high_water() const { return high_water_; }
    std::span<std::byte> bytes() { return buffer_.bytes(); }  // tests poison it

    // Gives back, when it goes, all that was taken after it was made.
    class Frame {
      public:
        explicit Frame(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
        ~Frame() { workspace_.used_ = used_; }
        Frame(const Frame&) = delete;
        Frame& operator=(const Frame&) = delete;

      private:
        Workspace& workspace_;
        size_t used_;
    };

  private:
    Buffer buffer_;
    size_t used_ = 0;
    size_t high_water_ = 0;
};

}  // namespace bifocal
