#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "cli/report.h"

namespace bifocal::cli {
namespace {

volatile std::sig_atomic_t caught = 0;
// The handler may run on any thread and at any moment, so a wait must see it as input, not hope to
// be woken by the signal itself.
int wake[2] = {-1, -1};

void on_interrupt(int) {
    if (caught != 0) _exit(kInterrupted);
    caught = 1;
    const int saved = errno;
    [[maybe_unused]] const ssize_t n = ::write(wake[1], "", 1);
    errno = saved;
}

}  // namespace

void catch_interrupts() {
    if (wake[0] < 0 && ::pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) return;
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() {
    return caught != 0;
}

void clear_interrupt() {
    char byte;
    while (wake[0] >= 0 && ::read(wake[0], &byte, 1) == 1) {
    }
    caught = 0;
}

bool wait_readable(int fd) {
    pollfd ends[] = {{fd, POLLIN, 0}, {wake[0], POLLIN, 0}};
    while (!interrupted()) {
        if (::poll(ends, 2, -1) < 0 && errno != EINTR) return true;  // reading will say why
        if (ends[0].revents != 0) return true;
    }
    return false;
}

}  // namespace bifocal::cli
