// Softmax attention of a group of query heads over one KvRing, for any number of new tokens.
//
// Queries are taken in blocks of 16 positions that start at multiples of 16. The panels of slots
// that the block's 16 tokens write are its hot panels; all others keep their contents throughout
// the block, so they are multiplied with all its queries at once, and hot ones query by query, each
// right after its token is written. So a chunk longer than the window never reads a slot that holds
// a later token, and nothing is copied out of the ring. Which panels are hot depends on positions
// only, and sums run cold panels first, then hot, both upwards: a query's result has the same bits
// however the tokens were cut into chunks.
#pragma once

#include <cstdint>
#include <span>

#include "core/view.h"
#include "mixers/shared/kv_ring.h"

namespace bifocal {

struct RingAttention {
    RingPlan plan;
    int64_t group = 1;            // query heads that share the kv head
    int64_t head_dim = 0;         // D
    float scale = 1;              // on q·k
    bool has_sink_query = false;  // sink keys are read by a query of their own (cache positions)
    std::span<const float> sink_logits;  // [group], or empty: extra logits without key or value

    // Elements of scratch that run() needs for a chunk of `n_tokens`.
    int64_t scratch_floats(int64_t n_tokens) const;

    struct Io {
        View<const float, 3> q;       // [T, group, D]
        View<const float, 3> sink_q;  // [T, group, D], if has_sink_query
        View<const float, 2> k, v;    // [T, D]; written to the ring
        View<float, 3> out;           // [T, group, D]; may be q
    };
    // Tokens at positions pos, pos + 1, ...
    void run(KvRing& ring, int64_t pos, const Io& io, std::span<float> scratch) const;
};

}  // namespace bifocal
