// StatePool: slots of one fixed size, each the whole state of one sequence. The size is declared
// when the pool is made and never changes; a slot's memory comes with its first use and stays.
// Behind each slot lies a guard line, checked after every step: a layer that writes one byte more
// than it declared aborts.
#pragma once

#include <cstddef>
#include <vector>

#include "bifocal/error.h"
#include "core/buffer.h"

namespace bifocal {

class StatePool {
  public:
    static constexpr size_t kGuardBytes = kAlignment;

    StatePool(size_t slot_bytes, int64_t max_slots);

    // Index of a slot, zeroed when new, else as it was left; an error when all are taken.
    Result<int64_t> acquire();
    void release(int64_t slot);

    std::byte* data(int64_t slot) { return slots_[slot].data(); }
    const std::byte* data(int64_t slot) const { return slots_[slot].data(); }
    size_t slot_bytes() const { return slot_bytes_; }
    size_t allocated_bytes(int64_t slot) const { return slots_[slot].size(); }
    int64_t n_taken() const { return n_taken_; }

    // Aborts when something was written behind the slot's end.
    void check_guard(int64_t slot) const;

  private:
    size_t slot_bytes_;
    std::vector<Buffer> slots_;
    std::vector<bool> taken_;
    int64_t n_taken_ = 0;
};

}  // namespace bifocal
