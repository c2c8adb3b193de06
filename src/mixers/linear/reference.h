// The whole sublayer as its README defines it, on one sequence from a fresh state, template on the
// number type.
#pragma once

#include "core/view.h"
#include "mixers/linear/config.h"
#include "mixers/shared/reference_ops.h"
#include "mixers/shared/weights.h"

namespace bifocal::linear {

enum class Form : uint8_t { recurrent, parallel };  // of recurrence_reference.h

struct Reference {
    LinearConfig config;
    LayerContext context;
    ReferenceWeights weights;

    // x: [T, M] residual stream. R: double or float.
    // What the branch gives, [T, H·V].
    template <class R>
    ReferenceRows<R> heads(View<R, 2> x, Form form) const;
    // The whole sublayer: projects that and adds the result to x.
    template <class R>
    void forward(View<R, 2> x, Form form) const;
};

}  // namespace bifocal::linear
