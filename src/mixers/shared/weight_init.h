// Beginnings of new weights, for WeightInit::fill.
#pragma once

#include <cmath>

#include "mixers/mixer.h"

namespace bifocal::init {

inline WeightInit copy_of(std::string teacher) {
    return {.teacher = std::move(teacher)};
}

inline WeightInit constant(float value) {
    return {.fill = [=](std::span<float> values, Rng&) {
        for (float& v : values) v = value;
    }};
}

// Of standard deviation `size`.
inline WeightInit normal(double size) {
    return {.fill = [=](std::span<float> values, Rng& rng) {
        for (float& v : values) v = static_cast<float>(size * rng.normal());
    }};
}

inline WeightInit uniform(double low, double high) {
    return {.fill = [=](std::span<float> values, Rng& rng) {
        for (float& v : values) v = static_cast<float>(low + (high - low) * rng.uniform());
    }};
}

// From `first` to `last` in equal steps.
inline WeightInit steps(double first, double last) {
    return {.fill = [=](std::span<float> values, Rng&) {
        const double n = static_cast<double>(values.size());
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(
                n > 1 ? first + (last - first) * static_cast<double>(i) / (n - 1) : first);
    }};
}

// Square matrices one after the other.
inline WeightInit identities(int64_t n) {
    return {.fill = [=](std::span<float> values, Rng&) {
        for (size_t i = 0; i < values.size(); ++i) {
            const auto at = static_cast<int64_t>(i) % (n * n);
            values[i] = at / n == at % n ? 1.0f : 0.0f;
        }
    }};
}

// Convolutions of `taps` that begin as the identity.
inline WeightInit last_tap(int64_t taps) {
    return {.fill = [=](std::span<float> values, Rng&) {
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<int64_t>(i) % taps == taps - 1 ? 1.0f : 0.0f;
    }};
}

// log of numbers drawn evenly.
inline WeightInit log_uniform(double low, double high) {
    return {.fill = [=](std::span<float> values, Rng& rng) {
        for (float& v : values)
            v = static_cast<float>(std::log(low + (high - low) * rng.uniform()));
    }};
}

// What softplus makes steps of, spread evenly over the logarithms of `low` to `high`.
inline WeightInit softplus_steps(double low, double high) {
    return {.fill = [=](std::span<float> values, Rng& rng) {
        for (float& v : values) {
            const double step = low * std::pow(high / low, rng.uniform());
            v = static_cast<float>(step + std::log(-std::expm1(-step)));
        }
    }};
}

// Biases of forget gates: a head keeps half-lives of log-spaced lengths, `first` to `last` tokens.
inline WeightInit forget_biases(double first, double last) {
    return {.fill = [=](std::span<float> values, Rng&) {
        const double n = static_cast<double>(values.size());
        for (size_t i = 0; i < values.size(); ++i) {
            const double share = n > 1 ? static_cast<double>(i) / (n - 1) : 0;
            values[i] = static_cast<float>(std::log(first * std::pow(last / first, share) - 1));
        }
    }};
}

}  // namespace bifocal::init
