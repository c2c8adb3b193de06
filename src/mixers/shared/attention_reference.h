// The definition of softmax attention with windows, sink tokens and learned sinks: a T × T mask,
// no ring, nothing shared with the fast path. Every softmax mixer is held to it.
#pragma once

#include "core/view.h"
#include "mixers/mixer.h"
#include "mixers/shared/reference_ops.h"
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

    // Eq. (1)-(6) of mixers/sliding_window/README.md on one sequence from its first token: what its
    // heads give, [T, H·D]. x: [T, M] residual stream. Real: double (the definition) or float (the
    // plain path that fast ones may err twice as much as).
    template <class Real>
    ReferenceRows<Real> heads(View<Real, 2> x) const;
    // What attention is made from: q, k, v after eq. (1)-(3), k and v as the cache holds them.
    template <class Real>
    struct Inputs {
        ReferenceRows<Real> q, k, v;  // [T, H·D], [T, G·D], [T, G·V]
    };
    template <class Real>
    Inputs<Real> inputs(View<Real, 2> x) const;
    // The same as a recurrence: a list of sinks and a queue of the window instead of a mask, a
    // running softmax instead of two passes.
    ReferenceRows<double> heads_recurrent(View<double, 2> x) const;
    // Eq. (7), (8): gates and projects the heads and adds the result to x.
    template <class Real>
    void add_result(const ReferenceRows<Real>& heads, View<Real, 2> x) const;
};

}  // namespace bifocal
