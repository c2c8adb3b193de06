// Checkpoints: copies of a sequence's state that it can go back to, where its layers themselves
// cannot (Mixer::rewind_limit), and the tokens read since the oldest of them. Going back to a
// position takes the newest copy at or before it and reads the tokens in between again.
//
// A copy is made at the end of the first call that is at least `every_tokens` after the copy
// before, so that copies change no bit of what is computed. Tokens remember where their call ended:
// read again with the same cuts, every mixer gives the same bits, also one whose bits depend on
// them. All memory is taken when a session is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bifocal/error.h"
#include "bifocal/session.h"
#include "core/buffer.h"

namespace bifocal {

// A state that can be gone back to. `pos`, `furthest`: as the session had them.
struct Checkpoint {
    int64_t pos = 0, furthest = 0;
    size_t slot = 0;  // where the copy is
};

// How an engine spends options.checkpoint_bytes in each of its sessions.
struct CheckpointPlan {
    int64_t every_tokens = 0;
    size_t state_bytes = 0;  // of one copy
    size_t n_states = 0;     // copies there is room for; 0: there are no checkpoints
    size_t n_tokens = 0;     // token ids there is room for

    size_t bytes() const;  // what a session takes for it
};
// As many copies as fit; an error when these are fewer than two.
Result<CheckpointPlan> plan_checkpoints(const EngineOptions& options, size_t state_bytes);

class Checkpoints {
  public:
    explicit Checkpoints(const CheckpointPlan& plan);

    // Forgets everything; `state` at `pos` is where the sequence begins.
    void restart(int64_t pos, int64_t furthest, const std::byte* state);
    // The tokens of one call, and the state after it at `pos`.
    void add(std::span<const int32_t> tokens, int64_t pos, int64_t furthest,
             const std::byte* state);
    // The sequence went back to `pos`, where `state` is its state.
    void take_back(int64_t pos, int64_t furthest, const std::byte* state);
    // The same as another, of the same plan.
    void copy_from(const Checkpoints& other);

    // The first position that can be gone back to, and all after it; -1: none.
    int64_t first_position() const { return n_kept_ == 0 ? -1 : kept_[0].pos; }
    // REQUIRES: 0 <= first_position() <= pos
    const Checkpoint& newest_until(int64_t pos) const;
    const std::byte* state(const Checkpoint& checkpoint) const;
    // The tokens from `begin` to the end of their call, but not beyond `end`; returns how many.
    // `tokens` has room for a call.
    int64_t read_call(int64_t begin, int64_t end, std::span<int32_t> tokens) const;

    int64_t n_kept() const { return static_cast<int64_t>(n_kept_); }
    size_t bytes() const;  // held

  private:
    const Checkpoint& newest() const { return kept_[n_kept_ - 1]; }
    std::byte* data(size_t slot) { return states_.data() + slot * plan_.state_bytes; }
    size_t id_index(int64_t pos) const { return static_cast<size_t>(pos) % plan_.n_tokens; }
    void keep(int64_t pos, int64_t furthest, const std::byte* state);
    void drop(size_t i);
    size_t least_needed(int64_t pos) const;

    CheckpointPlan plan_;
    std::vector<Checkpoint> kept_;  // [n_states] oldest first, then those whose slots are free
    size_t n_kept_ = 0;
    Buffer states_;             // [n_states, state_bytes]
    std::vector<int32_t> ids_;  // [n_tokens] a ring; the last token of a call as ~id
    int64_t first_token_ = 0;   // the ring holds the tokens from here on
};

}  // namespace bifocal
