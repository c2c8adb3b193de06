#include "core/check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace bifocal {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
    std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message.c_str());
    std::abort();
}

void check_shape(std::string_view name, std::span<const int64_t> actual,
                 std::initializer_list<int64_t> expected) {
    BIFOCAL_CHECK(std::equal(actual.begin(), actual.end(), expected.begin(), expected.end()),
                  "check_shape: {} is {}, expected {}", name, actual, expected);
}

}  // namespace bifocal
