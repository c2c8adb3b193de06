// Broken preconditions of our own abort, in every build, with the place and the values.
// What the outside can cause is an Error (bifocal/error.h), never a check.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace bifocal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

// Aborts unless `actual` equals `expected`: "check_shape: k is [2, 7, 4], expected [2, 7, 5]".
void check_shape(std::string_view name, std::span<const int64_t> actual,
                 std::initializer_list<int64_t> expected);

}  // namespace bifocal

#define BIFOCAL_CHECK(condition, ...)                                                            \
    do {                                                                                         \
        if (!(condition)) [[unlikely]]                                                           \
            ::bifocal::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    } while (false)
