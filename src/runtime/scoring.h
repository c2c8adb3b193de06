// From logits to what evaluation needs: log-probabilities, likeliest tokens, divergences. Sums in
// double.
#pragma once

#include <cstdint>
#include <span>

namespace bifocal {

// log(sum(exp(logits)))
double log_sum_exp(std::span<const float> logits);
// log p(token), in nats.
double log_probability(std::span<const float> logits, int32_t token);
// KL(p || q) of the softmaxes of two rows of logits, in nats; at least 0.
double kl_divergence(std::span<const float> p, std::span<const float> q);

// Mean and standard error of numbers as they come.
class Average {
  public:
    void add(double x);
    int64_t count() const { return n_; }
    double mean() const { return mean_; }
    double standard_error() const;  // 0 for fewer than two

  private:
    int64_t n_ = 0;
    double mean_ = 0, squares_ = 0;  // Welford's recurrence
};

// Of a sorted list: value at share q of the way, between neighbours by line.
double quantile(std::span<const double> sorted, double q);

}  // namespace bifocal
