// What the commands print beside their output: errors, tables, numbers with units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::cli {

// Prints "bifocal: MESSAGE" on standard error; gives the exit status, 1 or 2.
int report(const Error& error);
inline int report(const Status& status) {
    return status.ok() ? 0 : report(status.error());
}

inline constexpr int kInterrupted = 130;  // as shells count a program ended by Ctrl-C

// Columns as wide as they must be, two spaces between them. The first row is the head; the first
// column is flush left, the others flush right.
std::string table(const std::vector<std::vector<std::string>>& rows);
// As table(), all columns flush left, no head.
std::string list(const std::vector<std::vector<std::string>>& rows);

std::string bytes_text(int64_t bytes);  // "11.3 MiB"
std::string count_text(int64_t n);      // "12,345"

}  // namespace bifocal::cli
