#include "core/buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace bifocal {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::align_val_t alignment(size_t bytes) {
    return std::align_val_t{bytes < kHugePage ? kAlignment : kHugePage};
}

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    data_ = static_cast<std::byte*>(::operator new(bytes, alignment(bytes)));
    // Whole pages only, so that the buffer takes no more memory than its size. A wish, made before
    // the first touch; without it all still works.
    if (bytes >= kHugePage) madvise(data_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
}

Buffer::~Buffer() {
    ::operator delete(data_, alignment(size_));
}

}  // namespace bifocal
