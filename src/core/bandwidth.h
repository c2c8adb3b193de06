// What this machine can read from memory: the yardstick of decode, which streams all weights once
// for each token.
#pragma once

#include <cstddef>

#include "core/thread_pool.h"

namespace bifocal {

struct Bandwidth {
    size_t bytes = 0;  // working set
    double median_gb_per_s = 0;
    double best_gb_per_s = 0;
};

// Reads `bytes` of memory again and again on all threads of the pool for about `seconds`. The
// figure depends on the working set (caches), so ask for that of the model. Allocates.
Bandwidth measure_read_bandwidth(size_t bytes, double seconds, ThreadPool& pool);

}  // namespace bifocal
