#include "core/buffer.h"

#include <cstring>
#include <new>

namespace bifocal {

Buffer::Buffer(size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}));
    std::memset(data_, 0, bytes);
}

Buffer::~Buffer() {
    ::operator delete (data_, std::align_val_t{kAlignment});
}

}  // namespace bifocal
