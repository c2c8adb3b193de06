// ThreadPool: fork-join over small pieces of work, for loops of microseconds.
// Threads claim pieces one at a time, first from a run of their own, then from the others', so that
// a thread that loses its core delays one piece, not the whole loop. Between loops they spin
// briefly, then sleep on a futex.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace bifocal {

class ThreadPool {
  public:
    // `n_threads` counts the calling thread; 0 means one per available core.
    explicit ThreadPool(int n_threads = 0);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const;

    // Calls body(begin, end, thread) on pieces of at most `grain` consecutive indices that cover
    // [0, n), in any order, on any thread in [0, size()). Returns when all are done. Allocates
    // nothing. Not reentrant; one caller at a time.
    template <class Body>
    void parallel_for(int64_t n, int64_t grain, Body&& body) {
        using Plain = std::remove_reference_t<Body>;
        run(
            n, grain,
            [](void* context, int64_t begin, int64_t end, int thread) {
                (*static_cast<Plain*>(context))(begin, end, thread);
            },
            const_cast<void*>(static_cast<const void*>(&body)));
    }

  private:
    using Piece = void (*)(void* context, int64_t begin, int64_t end, int thread);
    void run(int64_t n, int64_t grain, Piece piece, void* context);
    struct Shared;
    std::unique_ptr<Shared> shared_;
};

}  // namespace bifocal
