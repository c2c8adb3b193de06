// The definition of softmax attention with windows, sink tokens and learned sinks: a T × T mask,
// no ring, nothing shared with the fast path. Every softmax mixer is held to it.
#pragma once

#include "core/view.h"
#include "mixers/mixer.h"
#include "mixers/shared/weights.h"

namespace bifocal {

struct DenseAttention {
    LayerContext context;
    int64_t window = -1;  // -1: everything
    int64_t sink_tokens = 0;
    bool sinks_at_cache_positions = false;
    bool has_learned_sink = false;
    DType kv_dtype = DType::bf16;
    ReferenceWeights weights;

    // Eq. (1)-(7) of mixers/sliding_window/README.md on one sequence from its first token.
    // x: [T, M] residual stream, updated in place. Real: double (the definition) or float (the
    // plain path that fast ones may err twice as much as).
    template <class Real>
    void forward(View<Real, 2> x) const;

    // The same sublayer as a recurrence: a list of sinks and a queue of the window instead of a
    // mask, a running softmax instead of two passes.
    void forward_recurrent(View<double, 2> x) const;
};

}  // namespace bifocal
