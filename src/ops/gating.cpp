#include "ops/gating.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bifocal::ops {
namespace {

constexpr float kDropped = -std::numeric_limits<float>::infinity();
// Added to the sum that weights are divided by: scores may all be 0.
constexpr float kTiny = 1e-20f;

float sigmoid(float x) {
    return 1 / (1 + std::exp(-x));
}

void rank_experts(const Gating& gating, std::span<const float> logits,
                  std::span<const float> correction, std::span<float> ranks) {
    for (size_t e = 0; e < logits.size(); ++e) {
        ranks[e] = gating.scores == Gating::Scores::sigmoid ? sigmoid(logits[e]) : logits[e];
        if (!correction.empty()) ranks[e] += correction[e];
    }
}

float sum_of_two_highest(std::span<const float> ranks) {
    float first = kDropped, second = kDropped;
    for (const float rank : ranks) {
        second = std::max(second, std::min(first, rank));
        first = std::max(first, rank);
    }
    return first + second;
}

// The weakest group loses its ranks, until few enough are left.
void drop_groups(const Gating& gating, std::span<float> ranks) {
    const size_t size = ranks.size() / static_cast<size_t>(gating.n_groups);
    for (int64_t n = gating.n_groups; n > gating.n_groups_used; --n) {
        std::span<float> weakest;
        float least = 0;
        for (size_t begin = 0; begin < ranks.size(); begin += size) {
            const std::span<float> group = ranks.subspan(begin, size);
            const float sum = sum_of_two_highest(group);
            if (sum == kDropped || (!weakest.empty() && sum > least)) continue;
            weakest = group;
            least = sum;
        }
        std::ranges::fill(weakest, kDropped);
    }
}

void take_highest(std::span<const float> ranks, std::span<int32_t> chosen) {
    // Those found so far, highest first.
    size_t n = 0;
    for (size_t e = 0; e < ranks.size(); ++e) {
        if (n == chosen.size() && !(ranks[e] > ranks[chosen[n - 1]])) continue;
        size_t at = n < chosen.size() ? n++ : n - 1;
        for (; at > 0 && ranks[e] > ranks[chosen[at - 1]]; --at) chosen[at] = chosen[at - 1];
        chosen[at] = static_cast<int32_t>(e);
    }
    std::ranges::sort(chosen);
}

}  // namespace

void choose_experts(const Gating& gating, std::span<const float> logits,
                    std::span<const float> correction, std::span<float> ranks,
                    std::span<int32_t> chosen, std::span<float> weights) {
    rank_experts(gating, logits, correction, ranks);
    drop_groups(gating, ranks);
    take_highest(ranks, chosen);

    const bool is_softmax = gating.scores == Gating::Scores::softmax;
    const float top = is_softmax ? *std::ranges::max_element(logits) : 0;
    // Numerators of the softmax, whose denominator cancels where weights sum to one.
    const auto score = [&](float logit) {
        return is_softmax ? std::exp(logit - top) : sigmoid(logit);
    };
    float sum_of_chosen = 0, sum_of_all = 0;
    for (size_t k = 0; k < chosen.size(); ++k) {
        weights[k] = score(logits[chosen[k]]);
        sum_of_chosen += weights[k];
    }
    if (is_softmax && !gating.sums_to_one)
        for (const float logit : logits) sum_of_all += score(logit);
    const float total = gating.sums_to_one ? sum_of_chosen + kTiny : is_softmax ? sum_of_all : 1;
    for (float& weight : weights) weight = weight / total * gating.scale;
}

}  // namespace bifocal::ops
