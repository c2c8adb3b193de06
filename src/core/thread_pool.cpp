// One loop at a time is described by plain fields, published by stores to the slots' counters. A
// thread may read them only while it holds a piece it has claimed: the loop cannot end before that
// piece is counted as done, so the fields cannot change under it. A late thread that claims from
// the next loop by accident therefore just works for it.
// Each thread has a slot of consecutive pieces, so that it streams through memory in order; when
// its own are gone it takes from the others'.
#include "core/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bifocal {
namespace {

// Longer than the serial gaps between loops of a decode step, shorter than a scheduler's slice.
constexpr std::chrono::microseconds kSpinTime{50};

inline void pause_briefly() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Spins until `ready()` or the time is over; the answer of the last ready().
template <class Ready>
bool spin_until(Ready ready) {
    for (int i = 0; i < 64; ++i) {
        if (ready()) return true;
        pause_briefly();
    }
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    while (std::chrono::steady_clock::now() < end) {
        for (int i = 0; i < 16; ++i) {
            if (ready()) return true;
            pause_briefly();
        }
    }
    return ready();
}

}  // namespace

struct ThreadPool::Shared {
    struct alignas(64) Slot {
        std::atomic<int32_t> left{0};  // pieces not yet claimed; may fall below 0
        int32_t end = 0;               // one past its last piece
    };
    // The loop being run.
    Piece piece = nullptr;
    void* context = nullptr;
    int64_t n = 0;
    int64_t grain = 1;
    int32_t n_pieces = 0;

    std::vector<Slot> slots;  // one for each thread
    alignas(64) std::atomic<int32_t> pieces_done{0};
    alignas(64) std::atomic<int32_t> loops{0};  // bumped at each loop: workers wait for it
    std::atomic<bool> stop{false};
    std::vector<std::thread> workers;

    explicit Shared(int n_threads) : slots(n_threads) {}

    // Runs pieces until none is left. The count goes to pieces_done once, at the end.
    void work(int thread) {
        const auto n_slots = static_cast<int>(slots.size());
        int32_t done = 0;
        int32_t total = 0;
        for (int i = 0; i < n_slots; ++i) {
            Slot& slot = slots[(thread + i) % n_slots];
            // Looking first keeps late threads from driving the counter far below 0.
            while (slot.left.load(std::memory_order_relaxed) > 0) {
                const int32_t left = slot.left.fetch_sub(1, std::memory_order_acq_rel);
                if (left <= 0) break;
                total = n_pieces;
                const int64_t begin = static_cast<int64_t>(slot.end - left) * grain;
                piece(context, begin, begin + grain < n ? begin + grain : n, thread);
                ++done;
            }
        }
        if (done == 0) return;
        if (pieces_done.fetch_add(done, std::memory_order_acq_rel) + done == total) {
            pieces_done.notify_one();
        }
    }

    void worker_main(int thread) {
        int32_t seen = 0;
        for (;;) {
            if (!spin_until([&] { return loops.load(std::memory_order_acquire) != seen; })) {
                loops.wait(seen, std::memory_order_acquire);
            }
            seen = loops.load(std::memory_order_acquire);
            if (stop.load(std::memory_order_acquire)) return;
            work(thread);
        }
    }
};

ThreadPool::ThreadPool(int n_threads)
    : shared_(std::make_unique<Shared>(n_threads > 0 ? n_threads : available_cores())) {
    n_threads = static_cast<int>(shared_->slots.size());
    shared_->workers.reserve(n_threads - 1);
    for (int i = 1; i < n_threads; ++i) {
        shared_->workers.emplace_back([shared = shared_.get(), i] { shared->worker_main(i); });
    }
}

ThreadPool::~ThreadPool() {
    shared_->stop.store(true, std::memory_order_release);
    shared_->loops.fetch_add(1, std::memory_order_acq_rel);
    shared_->loops.notify_all();
    for (std::thread& worker : shared_->workers) worker.join();
}

int ThreadPool::size() const {
    return static_cast<int>(shared_->workers.size()) + 1;
}

void ThreadPool::run(int64_t n, int64_t grain, Piece piece, void* context) {
    BIFOCAL_CHECK(grain > 0, "grain {}", grain);
    if (n <= 0) return;
    const int64_t n_pieces = (n + grain - 1) / grain;
    if (shared_->workers.empty() || n_pieces == 1) {
        for (int64_t begin = 0; begin < n; begin += grain) {
            piece(context, begin, begin + grain < n ? begin + grain : n, 0);
        }
        return;
    }
    BIFOCAL_CHECK(n_pieces < int64_t{1} << 30, "{} pieces; use a larger grain", n_pieces);
    Shared& s = *shared_;
    s.piece = piece;
    s.context = context;
    s.n = n;
    s.grain = grain;
    s.n_pieces = static_cast<int32_t>(n_pieces);
    s.pieces_done.store(0, std::memory_order_relaxed);
    const auto n_slots = static_cast<int64_t>(s.slots.size());
    for (int64_t i = 0; i < n_slots; ++i) {
        s.slots[i].end = static_cast<int32_t>(n_pieces * (i + 1) / n_slots);
    }
    for (int64_t i = 0; i < n_slots; ++i) {
        s.slots[i].left.store(s.slots[i].end - static_cast<int32_t>(n_pieces * i / n_slots),
                              std::memory_order_release);
    }
    s.loops.fetch_add(1, std::memory_order_acq_rel);
    s.loops.notify_all();
    s.work(0);

    int32_t done = s.pieces_done.load(std::memory_order_acquire);
    if (done == s.n_pieces) return;
    if (spin_until([&] {
            done = s.pieces_done.load(std::memory_order_acquire);
            return done == s.n_pieces;
        })) {
        return;
    }
    while ((done = s.pieces_done.load(std::memory_order_acquire)) != s.n_pieces) {
        s.pieces_done.wait(done, std::memory_order_acquire);
    }
}

}  // namespace bifocal
