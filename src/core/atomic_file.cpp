#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace bifocal {
namespace {

Error cannot(const std::string& verb, const std::string& path) {
    return Error{.what = "cannot " + verb, .where = path, .got = std::strerror(errno)};
}

bool write_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
}

// A rename is lasting only once its folder is synced; not every file system can do that.
void sync_folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
}

}  // namespace

Status write_file_atomically(const std::string& path,
                             std::span<const std::span<const std::byte>> parts) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
        return Error{.what = "cannot write a file", .where = path, .got = "a directory"};
    std::string temporary = path + ".XXXXXX";
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0) return cannot("create a file beside the target", path);
    bool ok = true;
    for (const auto part : parts) ok = ok && write_all(fd, part);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ok = ok && ::fchmod(fd, 0666 & ~mask) == 0 && ::fsync(fd) == 0;
    const int write_errno = errno;
    if (::close(fd) != 0 && ok)
        ok = false;
    else
        errno = write_errno;
    if (ok && ::rename(temporary.c_str(), path.c_str()) == 0) {
        sync_folder_of(path);
        return {};
    }
    Error error = cannot("write", path);
    ::unlink(temporary.c_str());
    return error;
}

}  // namespace bifocal
