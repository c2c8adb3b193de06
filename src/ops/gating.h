// Which experts a token goes to, and by what weights, from the router's logits.
#pragma once

#include <cstdint>
#include <span>

namespace bifocal::ops {

// A logit's score is its share of the softmax over all experts, or σ(logit). The K experts of
// highest rank are chosen: a rank is the logit itself before a softmax, which keeps its order, and
// else the score; either plus the expert's correction, which no weight contains.
struct Gating {
    enum class Scores : uint8_t { softmax, sigmoid };
    Scores scores = Scores::softmax;
    bool sums_to_one = true;  // weights: the scores of the chosen, divided by their sum; else as is
    float scale = 1;          // of all weights, at the end
    // Experts stand in groups of neighbours, equally many in each. Those of the `n_groups_used`
    // whose two highest ranks have the largest sums can be chosen.
    int64_t n_groups = 1;
    int64_t n_groups_used = 1;

    bool operator==(const Gating&) const = default;
};

// The experts of one token, in ascending order of their numbers; of equal ranks and equal groups
// the first.
// logits: [E]; correction: [E] or empty; ranks: [E] scratch; chosen, weights: [K]
void choose_experts(const Gating& gating, std::span<const float> logits,
                    std::span<const float> correction, std::span<float> ranks,
                    std::span<int32_t> chosen, std::span<float> weights);

}  // namespace bifocal::ops
