// Softmax attention of the query heads that share one kv head, for the tokens of one RingStage.
//
// Work comes in pieces of up to 12 columns (a column is one query head of one token), which any
// thread may take. A piece goes through the slots in blocks of 64 with a running maximum and sum.
// What a query computes depends on its position only: per block first the slots of its own turn of
// the ring, then those of the turn before, both upwards. So its result has the same bits however
// the tokens were cut into chunks.
#pragma once

#include <cstdint>
#include <span>

#include "mixers/shared/ring_stage.h"

namespace bifocal {

inline constexpr int64_t kMaxHeadDim = 640;  // scratch of a piece lies on the stack

struct RingAttention {
    const StagedSlots* slots = nullptr;
    int64_t group = 1;                   // query heads that share the kv head
    std::span<const float> sink_logits;  // [group], or empty: extra logits without key or value

    // Head h of the chunk's token i at i · stride + h · D. Queries are scaled and rotated. Of an
    // output the first V elements are written.
    const float* q = nullptr;
    const float* sink_q = nullptr;  // the queries that read sink keys; null: q
    float* out = nullptr;           // may be q
    int64_t stride = 0;

    // Sums of e^(score - largest score), of head h of token i at i · sums_stride + h; null: not
    // wanted.
    float* sums = nullptr;
    int64_t sums_stride = 0;

    int64_t n_pieces() const;
    void run(int64_t piece) const;
};

}  // namespace bifocal
