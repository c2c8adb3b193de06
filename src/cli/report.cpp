#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace bifocal::cli {
namespace {

// Columns of a terminal: every byte but those that continue a character.
size_t columns(const std::string& text) {
    return static_cast<size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, bool numbers_right) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
    }
    std::string out;
    for (const auto& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            const size_t gap = widths[i] - columns(row[i]);
            const bool right = numbers_right && i > 0;
            line.append(i > 0 ? 2 : 0, ' ').append(right ? gap : 0, ' ');
            line.append(row[i]).append(right ? 0 : gap, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out.append(line).append(1, '\n');
    }
    return out;
}

}  // namespace

int report(const Error& error) {
    fmt::print(stderr, "bifocal: {}\n", error.message());
    return error.kind == ErrorKind::usage ? 2 : 1;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    return aligned(rows, true);
}

std::string list(const std::vector<std::vector<std::string>>& rows) {
    return aligned(rows, false);
}

std::string bytes_text(int64_t bytes) {
    const auto value = static_cast<double>(bytes);
    if (bytes < 1024) return fmt::format("{} B", bytes);
    if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", value / 1024);
    if (bytes < 1024 * 1024 * 1024) return fmt::format("{:.1f} MiB", value / (1024 * 1024));
    return fmt::format("{:.2f} GiB", value / (1024.0 * 1024 * 1024));
}

std::string count_text(int64_t n) {
    std::string digits = fmt::format("{}", n);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (n < 0 ? 1 : 0); at -= 3)
        digits.insert(static_cast<size_t>(at), 1, ',');
    return digits;
}

}  // namespace bifocal::cli
