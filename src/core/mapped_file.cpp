#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace bifocal {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

Error system_error(std::string what, const std::string& path) {
    return {.what = std::move(what), .where = path, .got = std::strerror(errno)};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return system_error("cannot open the file", path);
    struct stat before {};
    if (::fstat(fd.get(), &before) != 0) return system_error("cannot stat the file", path);
    if (!S_ISREG(before.st_mode)) {
        return Error{.what = "not a file to read",
                     .where = path,
                     .expected = "a regular file",
                     .got = S_ISDIR(before.st_mode) ? "a folder" : "a device, pipe or socket"};
    }
    const size_t size = static_cast<size_t>(before.st_size);
    if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, {}));

    void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at == MAP_FAILED) return system_error("cannot map the file", path);
    std::shared_ptr<const MappedFile> file(
        new MappedFile(path, {static_cast<const std::byte*>(at), size}));
    struct stat after {};
    if (::fstat(fd.get(), &after) != 0) return system_error("cannot stat the file", path);
    if (after.st_size != before.st_size) {
        return Error{.what = "the file changed its size while it was opened",
                     .where = path,
                     .expected = std::to_string(before.st_size) + " bytes",
                     .got = std::to_string(after.st_size),
                     .hint = "wait until it is written completely"};
    }
    return file;
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) {
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    }
}

}  // namespace bifocal
