// What ops/gating.h defines, in double and by sorting.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "ops/gating.h"

namespace bifocal::testing {

// Numbers of `values` from the largest to the smallest, the first of equal ones.
inline std::vector<size_t> descending(const std::vector<double>& values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] > values[b]; });
    return order;
}

// The weight of each expert; 0: not chosen. logits: [E]; correction: [E] or empty
inline std::vector<double> reference_weights(const ops::Gating& gating, int64_t n_used,
                                             const std::vector<double>& logits,
                                             std::span<const float> correction) {
    const size_t E = logits.size(), size = E / static_cast<size_t>(gating.n_groups);
    const bool is_sigmoid = gating.scores == ops::Gating::Scores::sigmoid;
    double denominator = 0;
    for (const double logit : logits) denominator += std::exp(logit);
    std::vector<double> scores, ranks;
    for (size_t e = 0; e < E; ++e) {
        scores.push_back(is_sigmoid ? 1 / (1 + std::exp(-logits[e]))
                                    : std::exp(logits[e]) / denominator);
        ranks.push_back((is_sigmoid ? scores[e] : logits[e]) +
                        (correction.empty() ? 0.0 : correction[e]));
    }
    std::vector<double> strengths(static_cast<size_t>(gating.n_groups));
    for (size_t g = 0; gating.n_groups > 1 && g < strengths.size(); ++g) {
        std::vector<double> group(ranks.begin() + static_cast<std::ptrdiff_t>(g * size),
                                  ranks.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
        std::ranges::sort(group, std::greater());
        strengths[g] = group[0] + group[1];
    }
    std::vector<bool> is_open(strengths.size(), false);
    const std::vector<size_t> groups = descending(strengths);
    for (int64_t g = 0; g < gating.n_groups_used; ++g)
        is_open[groups[static_cast<size_t>(g)]] = true;

    std::vector<size_t> chosen;
    for (const size_t e : descending(ranks))
        if (std::ssize(chosen) < n_used && is_open[e / size]) chosen.push_back(e);
    double total = 0;
    for (const size_t e : chosen) total += scores[e];
    std::vector<double> weights(E, 0.0);
    for (const size_t e : chosen)
        weights[e] = scores[e] / (gating.sums_to_one ? total + 1e-20 : 1) *
                     static_cast<double>(gating.scale);
    return weights;
}

}  // namespace bifocal::testing
