// eq. (1)-(6) of README.md on one sequence from a fresh state, template on the number type: as sums
// over all tokens, and token by token with a state.
#pragma once

#include "mixers/linear/config.h"
#include "mixers/shared/attention_reference.h"

namespace bifocal {

struct LolcatsReference {
    DenseAttention dense;  // window, weights, context
    linear::LinearConfig map;
    bool is_affine = false;

    // x: [T, M] residual stream, updated in place. Real: double or float.
    template <class Real>
    void forward(View<Real, 2> x, bool is_recurrent) const;
};

}  // namespace bifocal
