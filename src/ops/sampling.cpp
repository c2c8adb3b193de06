#include "ops/sampling.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

// Each token of the ring counts once, however often it occurs.
void penalise(const Sampler& sampler, std::span<float> logits) {
    const float penalty = sampler.options.repeat_penalty;
    const auto& recent = sampler.recent;
    if (penalty == 1.0f) return;
    const auto n =
        static_cast<size_t>(std::min<int64_t>(sampler.n_seen, static_cast<int64_t>(recent.size())));
    for (size_t i = 0; i < n; ++i) {
        const auto before = recent.begin() + static_cast<std::ptrdiff_t>(i);
        if (recent[i] < 0 || static_cast<size_t>(recent[i]) >= logits.size()) continue;
        if (std::find(recent.begin(), before, recent[i]) != before) continue;
        float& logit = logits[recent[i]];
        logit = logit > 0 ? logit / penalty : logit * penalty;
    }
}

}  // namespace

int32_t argmax(std::span<const float> logits) {
    BIFOCAL_CHECK(!logits.empty(), "argmax of nothing");
    const float best = kernels().max(logits.data(), static_cast<int64_t>(logits.size()));
    for (size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] == best) return static_cast<int32_t>(i);
    }
    return 0;  // nothing but NaNs
}

Sampler::Sampler(const SamplingOptions& options_) : options(options_), rng{options_.seed} {
    recent.resize(static_cast<size_t>(std::max(0, options.repeat_last_n)));
}

void Sampler::accept(int32_t token) {
    if (!recent.empty()) recent[static_cast<size_t>(n_seen) % recent.size()] = token;
    ++n_seen;
}

int32_t Sampler::sample(std::span<float> logits) {
    BIFOCAL_CHECK(!logits.empty(), "sampling from no logits");
    penalise(*this, logits);
    if (options.temperature <= 0) return argmax(logits);

    for (float& logit : logits) {
        if (!(logit == logit)) logit = -std::numeric_limits<float>::infinity();
    }
    order.resize(logits.size());
    weights.resize(logits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    size_t n = order.size();
    if (options.top_k > 0) n = std::min(n, static_cast<size_t>(options.top_k));
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                      [&](int32_t a, int32_t b) {
                          if (logits[a] != logits[b]) return logits[a] > logits[b];
                          return a < b;
                      });
    const float top = logits[order[0]];
    if (top == -std::numeric_limits<float>::infinity()) return order[0];
    const auto weigh = [&](float scale) {
        for (size_t i = 0; i < n; ++i) {
            const float x = logits[order[i]];
            weights[i] = x == top ? 0.0f : (x - top) * scale;  // equal infinities included
        }
        kernels().exp_sum(weights.data(), static_cast<int64_t>(n), 0.0f);
    };

    // Weights of the candidates relative to the best one's, which is 1.
    weigh(1.0f);
    if (options.top_p < 1.0f) {
        double total = 0;
        for (size_t i = 0; i < n; ++i) total += weights[i];
        const double enough = static_cast<double>(options.top_p) * total;
        double reached = 0;
        size_t kept = 0;
        while (kept < n) {
            reached += weights[kept++];
            if (reached >= enough) break;
        }
        n = kept;
    }
    if (options.min_p > 0.0f) {
        size_t kept = 1;
        while (kept < n && weights[kept] >= options.min_p) ++kept;
        n = kept;
    }
    weigh(1.0f / options.temperature);
    double total = 0;
    for (size_t i = 0; i < n; ++i) total += weights[i];
    double left = rng.uniform() * total;
    for (size_t i = 0; i < n; ++i) {
        left -= weights[i];
        if (left < 0) return order[i];
    }
    return order[n - 1];
}

}  // namespace bifocal::ops
