// Exec: what every op and mixer runs on: threads, scratch memory, and how exact to be.
#pragma once

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace bifocal {

enum class Precision {
    fast,   // int8 activations per block of 32 against the weights as stored
    exact,  // FP32 activations against dequantised weights
};

struct Exec {
    ThreadPool& pool;
    Workspace& workspace;
};

// What a workspace takes for n floats.
inline size_t float_bytes(int64_t n) {
    return align_up(static_cast<size_t>(n) * sizeof(float));
}

}  // namespace bifocal
