// A feed-forward of experts: a router gives each token to a few of them, which are summed by
// weight. Tokens are grouped by expert, so that a long prompt is a few products for each expert and
// a step of one token reads no expert but its own. A token's sum runs over its experts in the order
// of their numbers: its result has the same bits whatever is computed beside it.
#pragma once

#include <optional>
#include <vector>

#include "ops/activation.h"
#include "ops/linear.h"

namespace bifocal::ops {

// e(x) = down(activation(gate x, up x))
struct Expert {
    Linear gate, up, down;  // [F, M], [F, M], [M, F]
};

// One that every token goes through: σ(gate x) e(x).
struct SharedExpert {
    Expert expert;
    Linear gate;  // [1, M]
};

struct Experts {
    Linear router;                // [E, M]
    std::vector<Expert> experts;  // [E]
    int64_t n_used = 0;           // K, for each token
    // Weights of a token's K largest logits: softmax over these K alone, which is also what the
    // softmax over all E gives when it is divided by the sum of the chosen; else the latter as it
    // is.
    bool weighs_chosen = true;
    Activation activation = Activation::silu;
    std::optional<SharedExpert> shared;

    // y += what each token's experts give. x, y: [N, M], apart.
    void forward(View<const float, 2> x, View<float, 2> y, Exec& exec) const;
    size_t workspace_bytes(int64_t n_rows) const;
    int64_t weight_bytes() const;  // read for one token
};

// The experts of one token: the `chosen.size()` largest logits, the first of equal ones, in
// ascending order of their numbers. logits: [E]; chosen, weights: [K]
void choose_experts(std::span<const float> logits, bool weighs_chosen, std::span<int32_t> chosen,
                    std::span<float> weights);

}  // namespace bifocal::ops
