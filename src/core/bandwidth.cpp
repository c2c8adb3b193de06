#include "core/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/huge_memory.h"

namespace bifocal {
namespace {

constexpr int64_t kPieceBytes = 64 << 10;
constexpr int64_t kLayerBytes = 2 << 20;

constexpr int kPrefetchAhead = 8192;

// Sums whole cache lines in independent chains, with the prefetching that our kernels use: without
// it a core waits for memory and the figure says more about latency.
uint64_t read_piece(const std::byte* data, int64_t bytes) {
    const auto* words = reinterpret_cast<const uint64_t*>(data);
    const int64_t n = bytes / 8;
    uint64_t sums[8] = {};
    for (int64_t i = 0; i + 8 <= n; i += 8) {
        __builtin_prefetch(data + 8 * i + kPrefetchAhead);
        for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    uint64_t total = 0;
    for (const uint64_t sum : sums) total += sum;
    return total;
}

// Medians and best of passes over `memory` for about `seconds`, in steps of `step_bytes` that all
// threads share.
Bandwidth measure(std::span<const std::byte> memory, int64_t step_bytes, double seconds,
                  ThreadPool& pool) {
    using Clock = std::chrono::steady_clock;
    const auto size = static_cast<int64_t>(memory.size());
    std::atomic<uint64_t> sink{0};
    const auto pass = [&] {
        const auto start = Clock::now();
        for (int64_t at = 0; at < size; at += step_bytes) {
            const int64_t bytes = std::min(step_bytes, size - at);
            pool.parallel_for(bytes, kPieceBytes, [&](int64_t begin, int64_t end, int) {
                sink.fetch_add(read_piece(memory.data() + at + begin, end - begin),
                               std::memory_order_relaxed);
            });
        }
        const std::chrono::duration<double> time = Clock::now() - start;
        return static_cast<double>(size) / time.count() / 1e9;
    };
    pass();
    std::vector<double> rates;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    do {
        rates.push_back(pass());
    } while (Clock::now() < end);
    std::sort(rates.begin(), rates.end());
    return {memory.size(), rates[rates.size() / 2], rates.back()};
}

}  // namespace

Bandwidth measure_read_bandwidth(size_t bytes, double seconds, ThreadPool& pool) {
    const HugeMemory memory = allocate_huge(std::max(bytes, static_cast<size_t>(kPieceBytes)));
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{1});
    // Threads far apart, or close together as in a decode step: caches and memory tell them apart.
    const Bandwidth apart =
        measure(memory.bytes, static_cast<int64_t>(memory.bytes.size()), seconds / 2, pool);
    const Bandwidth close = measure(memory.bytes, kLayerBytes, seconds / 2, pool);
    return apart.median_gb_per_s > close.median_gb_per_s ? apart : close;
}

}  // namespace bifocal
