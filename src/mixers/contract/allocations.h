// Counts what operator new gave out since the test program began, on all threads.
#pragma once

#include <cstdint>

namespace bifocal::contract {

int64_t allocations();

}  // namespace bifocal::contract
