#include "runtime/scoring.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace bifocal {

double log_sum_exp(std::span<const float> logits) {
    BIFOCAL_CHECK(!logits.empty(), "no logits");
    const double top = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float x : logits) sum += static_cast<double>(std::exp(x - static_cast<float>(top)));
    return top + std::log(sum);
}

double log_probability(std::span<const float> logits, int32_t token) {
    return static_cast<double>(logits[token]) - log_sum_exp(logits);
}

double kl_divergence(std::span<const float> p, std::span<const float> q) {
    const double norm_p = log_sum_exp(p), norm_q = log_sum_exp(q);
    double sum = 0;
    for (size_t i = 0; i < p.size(); ++i) {
        const double log_p = static_cast<double>(p[i]) - norm_p;
        const double log_q = static_cast<double>(q[i]) - norm_q;
        if (log_p > -60) sum += std::exp(log_p) * (log_p - log_q);
    }
    return std::max(0.0, sum);
}

void Average::add(double x) {
    ++n_;
    const double delta = x - mean_;
    mean_ += delta / static_cast<double>(n_);
    squares_ += delta * (x - mean_);
}

double Average::standard_error() const {
    if (n_ < 2) return 0;
    const auto n = static_cast<double>(n_);
    return std::sqrt(squares_ / (n - 1) / n);
}

double quantile(std::span<const double> sorted, double q) {
    BIFOCAL_CHECK(!sorted.empty(), "quantile of nothing");
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<size_t>(at);
    const size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace bifocal
