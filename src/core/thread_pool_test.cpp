#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/cpu_features.h"

namespace bifocal {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
    for (const int n_threads : {1, 2, 3, 7}) {
        ThreadPool pool(n_threads);
        ASSERT_EQ(pool.size(), n_threads);
        for (const int64_t n : {0, 1, 2, 3, 63, 64, 65, 1000}) {
            for (const int64_t grain : {1, 2, 7, 64, 5000}) {
                std::vector<int> hits(static_cast<size_t>(n));
                std::atomic<bool> bad{false};
                pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int thread) {
                    if (end - begin > grain || end <= begin || thread < 0 || thread >= n_threads) {
                        bad = true;
                    }
                    for (int64_t i = begin; i < end; ++i) ++hits[i];
                });
                EXPECT_FALSE(bad);
                for (const int hit : hits) ASSERT_EQ(hit, 1) << n << " by " << grain;
            }
        }
    }
}

// Loops back to back, with results that the next loop reads: a lost piece, a piece run twice or
// run for the wrong loop changes the sum; a missing happens-before shows under TSan.
TEST(ThreadPool, ManyShortLoops) {
    ThreadPool pool(4);
    std::vector<int64_t> values(16, 0);
    const int n_loops = 3000;
    for (int i = 0; i < n_loops; ++i) {
        pool.parallel_for(1 + i % 16, 1, [&](int64_t begin, int64_t, int) { ++values[begin]; });
    }
    int64_t total = 0, expected = 0;
    for (const int64_t value : values) total += value;
    for (int i = 0; i < n_loops; ++i) expected += 1 + i % 16;
    EXPECT_EQ(total, expected);
}

TEST(ThreadPool, WorksAfterItsThreadsFellAsleep) {
    ThreadPool pool(3);
    for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        std::atomic<int> n{0};
        pool.parallel_for(10, 1, [&](int64_t, int64_t, int) { ++n; });
        EXPECT_EQ(n, 10);
    }
}

// A thread that stands still delays its piece only: the others take the rest of its run.
TEST(ThreadPool, OthersTakeTheWorkOfAStoppedThread) {
    ThreadPool pool(2);
    std::atomic<int> done{0};
    std::atomic<bool> held{false}, timed_out{false};
    pool.parallel_for(64, 1, [&](int64_t, int64_t, int) {
        if (!held.exchange(true)) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (done < 63) {
                if (std::chrono::steady_clock::now() > end) {
                    timed_out = true;
                    break;
                }
                std::this_thread::yield();
            }
        }
        ++done;
    });
    EXPECT_EQ(done, 64);
    EXPECT_FALSE(timed_out);
}

TEST(ThreadPool, CountsTheCoresItMayUse) {
    EXPECT_GE(available_cores(), 1);
    EXPECT_EQ(ThreadPool().size(), available_cores());
}

}  // namespace
}  // namespace bifocal
