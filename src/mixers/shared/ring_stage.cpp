#include "mixers/shared/ring_stage.h"

namespace bifocal {

int64_t RingStage::max_staged_blocks(const RingPlan& plan, int64_t n_tokens) {
    n_tokens = std::min(n_tokens, max_tokens(plan));
    if (n_tokens <= plan.slack + 1) return 0;
    const int64_t turns = (n_tokens + plan.turning() - 2) / plan.turning() + 1;
    const int64_t whole = (plan.slots() - 1) / kSlotBlock + 1;
    return std::min(turns * whole, n_tokens / kSlotBlock + 2 * turns);
}

KvSlots& StagedSlots::place_of(int64_t turn_index, int64_t slot, int64_t& at) {
    const int64_t block = stage.staged_block(turn_index, slot / kSlotBlock);
    at = block < 0 ? slot : block * kSlotBlock + slot % kSlotBlock;
    return block < 0 ? ring : staged;
}

void StagedSlots::store(const float* k, const float* v, int64_t stride) {
    const RingPlan& plan = stage.plan;
    const auto D = static_cast<size_t>(ring.head_dim);
    for (int64_t i = 0; i < stage.n_turns(); ++i) {
        // The part of the turn's first block that lies before the chunk: the ring's, or sinks.
        if (!stage.is_direct) {
            const int64_t block_begin = stage.first_block(i) * kSlotBlock;
            const int64_t n = plan.slot(stage.turn_begin(i)) - block_begin;
            if (n > 0) {
                int64_t from = block_begin, to = 0;
                const KvSlots& source = i == 0 ? ring : place_of(0, block_begin, from);
                KvSlots& target = place_of(i, block_begin, to);
                target.copy(to, source, from, n);
            }
        }
        for (int64_t token = stage.turn_begin(i); token < stage.turn_end(i); ++token) {
            int64_t at;
            KvSlots& target = place_of(i, plan.slot(token), at);
            const int64_t row = (token - stage.begin) * stride;
            target.write(at, {k + row, D}, {v + row, D});
        }
    }
}

void StagedSlots::finish() {
    if (stage.is_direct) return;
    const RingPlan& plan = stage.plan;
    for (int64_t i = 0; i < stage.n_turns(); ++i) {
        // Tokens that the ring still holds when the chunk is over; and sinks.
        const int64_t oldest = std::max(stage.turn_begin(i), stage.end - plan.turning());
        const auto keep = [&](int64_t begin, int64_t end) {
            if (begin >= end) return;
            int64_t from;
            const KvSlots& source = place_of(i, plan.slot(begin), from);
            ring.copy(plan.slot(begin), source, from, end - begin);
        };
        const int64_t sinks_end = std::min(stage.turn_end(i), plan.sink_tokens);
        keep(stage.turn_begin(i), sinks_end);
        keep(std::max({oldest, stage.turn_begin(i), sinks_end}), stage.turn_end(i));
    }
}

}  // namespace bifocal
