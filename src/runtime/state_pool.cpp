#include "runtime/state_pool.h"

#include <fmt/format.h>

#include <cstring>

namespace bifocal {
namespace {

constexpr std::byte kGuard{0xA5};

}  // namespace

StatePool::StatePool(size_t slot_bytes, int64_t max_slots)
    : slot_bytes_(slot_bytes),
      slots_(static_cast<size_t>(max_slots)),
      taken_(static_cast<size_t>(max_slots)) {}

Result<int64_t> StatePool::acquire() {
    for (size_t i = 0; i < slots_.size(); ++i) {
        if (taken_[i]) continue;
        if (slots_[i].size() == 0) {
            slots_[i] = Buffer(slot_bytes_ + kGuardBytes);
            std::memset(slots_[i].data() + slot_bytes_, static_cast<int>(kGuard), kGuardBytes);
        }
        taken_[i] = true;
        ++n_taken_;
        return static_cast<int64_t>(i);
    }
    return Error{.what = "no free state slot",
                 .expected = fmt::format("at most {} sessions at a time", slots_.size()),
                 .hint = "end one first"};
}

void StatePool::release(int64_t slot) {
    BIFOCAL_CHECK(taken_[slot], "slot {} is not taken", slot);
    taken_[slot] = false;
    --n_taken_;
}

void StatePool::check_guard(int64_t slot) const {
    const std::byte* guard = slots_[slot].data() + slot_bytes_;
    for (size_t i = 0; i < kGuardBytes; ++i)
        BIFOCAL_CHECK(guard[i] == kGuard,
                      "byte {} behind the {} declared ones of slot {} was written", i, slot_bytes_,
                      slot);
}

}  // namespace bifocal
