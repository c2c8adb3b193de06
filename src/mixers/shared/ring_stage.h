// RingStage: finds the keys and values that a query of a long chunk sees while later tokens of the
// same chunk already want the same slots.
//
// A short chunk is written to the ring first and then read from it (nothing that its queries see is
// overwritten). A longer one is staged: its tokens go to memory of their own, each turn of the ring
// apart, block by block of 64 slots as in the ring itself; after its queries are done, the ring
// takes over what it keeps. So every query finds slot s of its own turn and slot s of the turn
// before, whatever comes later in the chunk.
#pragma once

#include <cstdint>

#include "mixers/shared/kv_ring.h"

namespace bifocal {

// Attention reads slots in blocks of this many.
inline constexpr int64_t kSlotBlock = 64;

// How one chunk [begin, end) of token positions goes through a ring. Plain arithmetic.
struct RingStage {
    RingPlan plan;
    int64_t begin = 0;
    int64_t end = 0;
    bool is_direct = true;

    RingStage(const RingPlan& ring, int64_t first_token, int64_t end_token)
        : plan(ring), begin(first_token), end(end_token) {
        is_direct = end - begin <= plan.slack + 1 || end <= plan.slots();
    }
    int64_t first_turn() const { return plan.turn(begin); }
    int64_t n_turns() const { return plan.turn(end - 1) - first_turn() + 1; }
    // Tokens of the chunk in its i-th turn.
    int64_t turn_begin(int64_t i) const {
        return std::max(begin, plan.turn_begin(first_turn() + i));
    }
    int64_t turn_end(int64_t i) const {
        return std::min(end, plan.turn_begin(first_turn() + i + 1));
    }

    // Blocks of slots that are staged for the i-th turn: [first_block, last_block].
    int64_t first_block(int64_t i) const {
        return (i == 0 ? plan.slot(begin) : plan.sink_tokens) / kSlotBlock;
    }
    int64_t last_block(int64_t i) const { return plan.slot(turn_end(i) - 1) / kSlotBlock; }
    // Where these begin in the staging memory, in blocks.
    int64_t block_base(int64_t i) const {
        if (i == 0) return 0;
        const int64_t whole = (plan.slots() - 1) / kSlotBlock - plan.sink_tokens / kSlotBlock + 1;
        return last_block(0) - first_block(0) + 1 + (i - 1) * whole;
    }
    int64_t staged_blocks() const {
        if (is_direct) return 0;
        const int64_t last = n_turns() - 1;
        return block_base(last) + last_block(last) - first_block(last) + 1;
    }
    // The staged block that holds this block of slots as the i-th turn sees it; -1: the ring does.
    // i = -1 is the turn before the chunk's first.
    int64_t staged_block(int64_t i, int64_t block) const {
        if (is_direct || i < 0) return -1;
        if (block >= first_block(i)) return block_base(i) + block - first_block(i);
        return i == 0 ? -1 : staged_block(0, block);  // nothing but sinks
    }

    // Most blocks that any chunk of n tokens needs.
    static int64_t max_staged_blocks(const RingPlan& plan, int64_t n_tokens);
    // Longest chunk that is staged in one piece.
    static int64_t max_tokens(const RingPlan& plan) {
        return std::max<int64_t>(kSlotBlock, 4 * plan.turning());
    }
};

// One kv head's share of a stage.
struct StagedSlots {
    RingStage stage;
    KvSlots ring;
    KvSlots staged;  // stage.staged_blocks() · 64 slots; unused when direct

    // Writes the chunk's keys and values where its queries look for them. k, v: row of a token
    // `begin + i` at i · stride.
    void store(const float* k, const float* v, int64_t stride);
    // The ring takes over what it keeps.
    void finish();

    struct Place {
        const KvSlots* slots;
        int64_t first;  // where the block's first slot stands in it
        bool operator==(const Place&) const = default;
    };
    Place find(int64_t turn_index, int64_t block) const {
        const int64_t at = stage.staged_block(turn_index, block);
        if (at < 0) return {&ring, block * kSlotBlock};
        return {&staged, at * kSlotBlock};
    }

  private:
    KvSlots& place_of(int64_t turn_index, int64_t slot, int64_t& at);
};

}  // namespace bifocal
