#include "core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace bifocal {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kQuiet = std::chrono::milliseconds(500);     // short work shows nothing
constexpr auto kInterval = std::chrono::milliseconds(100);  // between two drawings

int terminal_width() {
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

}  // namespace

std::string progress_line(const std::string& label, int64_t done, int64_t total,
                          const std::string& unit, double seconds, int width) {
    done = std::clamp<int64_t>(done, 0, total);
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(share * kBarWidth);
    std::string line = fmt::format("{}  [{:#<{}}{:.<{}}] {:3.0f}%  {}/{} {}", label, "", filled, "",
                                   kBarWidth - filled, 100 * share, done, total, unit);
    if (done > 0 && done < total)
        line += fmt::format("  {:.0f} s left", seconds / static_cast<double>(done) *
                                                   static_cast<double>(total - done));
    if (std::ssize(line) > width) line.resize(static_cast<size_t>(std::max(0, width)));
    return line;
}

Progress::Progress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      drawn_(begin_) {}

Progress::~Progress() {
    clear();
}

void Progress::update(int64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_terminal_ || now - begin_ < kQuiet || now - drawn_ < kInterval) return;
    drawn_ = now;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    fmt::print(stderr, "\r\x1b[K{}",
               progress_line(label_, done, total_, unit_, seconds, terminal_width() - 1));
    std::fflush(stderr);
}

void Progress::clear() {
    if (!shown_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    shown_ = false;
}

}  // namespace bifocal
