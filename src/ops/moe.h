// A feed-forward of experts: a router gives each token to a few of them, which are summed by
// weight. Tokens are grouped by expert, so that a long prompt is a few products for each expert and
// a step of one token reads no expert but its own. A token's sum runs over its experts in the order
// of their numbers: its result has the same bits whatever is computed beside it.
#pragma once

#include <optional>
#include <vector>

#include "ops/activation.h"
#include "ops/gating.h"
#include "ops/linear.h"

namespace bifocal::ops {

// e(x) = down(activation(gate x, up x))
struct Expert {
    Linear gate, up, down;  // [F, M], [F, M], [M, F]
};

// One that every token goes through: σ(gate x) e(x), or e(x) without a gate.
struct SharedExpert {
    Expert expert;
    std::optional<Linear> gate = {};  // [1, M]
};

struct Experts {
    Linear router;                // [E, M]
    std::vector<Expert> experts;  // [E]
    int64_t n_used = 0;           // K, for each token
    Gating gating;
    std::vector<float> correction;  // [E] of ranks; or empty
    Activation activation = Activation::silu;
    std::optional<SharedExpert> shared;

    // y += what each token's experts give. x, y: [N, M], apart.
    void forward(View<const float, 2> x, View<float, 2> y, Exec& exec) const;
    size_t workspace_bytes(int64_t n_rows) const;
    int64_t weight_bytes() const;  // read for one token
};

}  // namespace bifocal::ops
