#include "core/huge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/buffer.h"
#include "core/check.h"

namespace bifocal {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunkBytes = size_t{64} << 20;

// Address space that becomes memory as it is touched.
class Chunk {
  public:
    explicit Chunk(size_t size) : mapped_bytes_(size + kHugePage), size_(size) {
        mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        BIFOCAL_CHECK(mapped_ != MAP_FAILED, "no memory for {} bytes", size);
        const auto address = reinterpret_cast<uintptr_t>(mapped_);
        const uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
        data_ = reinterpret_cast<std::byte*>(aligned);
        madvise(data_, size_, MADV_HUGEPAGE);  // a wish; without it all still works
    }
    ~Chunk() { munmap(mapped_, mapped_bytes_); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    bool fits(size_t bytes) const { return bytes <= size_ - used_; }
    std::span<std::byte> take(size_t bytes) {
        std::byte* at = data_ + used_;
        used_ += align_up(bytes);
        return {at, bytes};
    }

  private:
    void* mapped_ = nullptr;
    size_t mapped_bytes_;
    size_t size_;
    std::byte* data_ = nullptr;
    size_t used_ = 0;
};

}  // namespace

HugeMemory allocate_huge(size_t bytes) {
    static std::mutex mutex;
    static std::weak_ptr<Chunk> current;  // lives as long as anything in it
    const std::lock_guard lock(mutex);
    std::shared_ptr<Chunk> chunk = current.lock();
    if (!chunk || !chunk->fits(align_up(bytes))) {
        const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
        chunk = std::make_shared<Chunk>(std::max(kChunkBytes, size));
        current = chunk;
    }
    return {chunk, chunk->take(bytes)};
}

}  // namespace bifocal
