// Two definitions of the recurrence, template on the number type: token by token as in README.md
// eq. (1)-(5), and as sums over all pairs of tokens. They share no code; in double they agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mixers/linear/recurrence.h"

namespace bifocal::linear {

// For query head i of token t.
template <class R>
R divisor(const Recurrence& rec, const Tokens<R>& x, int64_t t, int64_t i, R den, R m) {
    if (rec.normaliser == Normaliser::none) return 1;
    if (rec.normaliser == Normaliser::apart) {
        x.den[t * x.den_row + i] = den;
        return 1;
    }
    const R floor = rec.normaliser == Normaliser::max_abs ? std::exp(-m) : R(0);
    return std::max(std::abs(den), floor) + static_cast<R>(rec.eps);
}

// eq. (1)-(5); `state` goes on.
template <class R>
void reference_recurrent(const Recurrence& rec, const Tokens<R>& x, const State<R>& state) {
    const int64_t K = rec.key_dim, V = rec.value_dim;
    std::vector<R> kept(static_cast<size_t>(K)), u(static_cast<size_t>(V));
    for (int64_t t = 0; t < x.n; ++t) {
        const R* const k = x.k + t * x.k_row;
        const R* const v = x.v + t * x.v_row;
        const R* const g = x.g + t * x.g_row;
        R w = x.w ? x.w[t * x.w_row] : R(rec.has_stabiliser() ? 0 : 1);
        R keep = 1, m = 0;  // beside the decay
        if (rec.has_stabiliser()) {
            const R before = *state.m;
            m = std::max(g[0] + before, w);
            keep = std::exp(before - m);
            w = std::exp(w - m);
            *state.m = m;
        }
        for (int64_t c = 0; c < K; ++c) kept[c] = std::exp(g[rec.decays_by_channel ? c : 0]) * keep;
        const auto read = [&](bool with_bonus) {
            for (int64_t i = 0; i < rec.n_queries; ++i) {
                const R* const q = x.q + t * x.q_row + i * K;
                R* const y = x.y + t * x.y_row + i * V;
                R den = 0;
                for (int64_t c = 0; c < K && state.n; ++c) den += state.n[c] * q[c];
                const R by = divisor<R>(rec, x, t, i, den * static_cast<R>(rec.scale), m);
                for (int64_t j = 0; j < V; ++j) {
                    R sum = 0;
                    for (int64_t c = 0; c < K; ++c) {
                        R element = state.s[c * V + j];
                        if (with_bonus) element += x.bonus[c] * k[c] * v[j];
                        sum += element * q[c];
                    }
                    y[j] = static_cast<R>(rec.scale) * sum / by;
                }
            }
        };
        if (rec.has_bonus) read(true);
        for (int64_t j = 0; j < V; ++j) {
            R recalled = 0;
            if (rec.write == Write::delta)
                for (int64_t c = 0; c < K; ++c) recalled += kept[c] * state.s[c * V + j] * k[c];
            u[j] = w * (v[j] - recalled);
        }
        for (int64_t c = 0; c < K; ++c) {
            for (int64_t j = 0; j < V; ++j)
                state.s[c * V + j] = kept[c] * state.s[c * V + j] + k[c] * u[j];
            if (state.n) state.n[c] = kept[c] * state.n[c] + w * k[c];
        }
        if (!rec.has_bonus) read(false);
    }
}

// From a fresh state: y_t = sum over the tokens i <= t of (weight of i at t) (q_t·k_i) u_i. For the
// delta rule the u_i solve a triangular system over the whole sequence.
template <class R>
void reference_parallel(const Recurrence& rec, const Tokens<R>& x) {
    const int64_t K = rec.key_dim, V = rec.value_dim, T = x.n;
    const auto sum_of_g = [&](int64_t after, int64_t until, int64_t c) {
        R sum = 0;
        for (int64_t t = after + 1; t <= until; ++t)
            sum += x.g[t * x.g_row + (rec.decays_by_channel ? c : 0)];
        return sum;
    };
    // sum over c of a_c k_i,c e^(decay from i to t); the last `skip` decays left out
    const auto product = [&](const R* a, int64_t t, int64_t i, R exponent, int64_t skip) {
        R sum = 0;
        const R* const k = x.k + i * x.k_row;
        for (int64_t c = 0; c < K; ++c)
            sum += a[c] * k[c] * std::exp(sum_of_g(i, t - skip, c) + exponent);
        return sum;
    };
    const auto w_of = [&](int64_t i) {
        return x.w ? x.w[i * x.w_row] : R(rec.has_stabiliser() ? 0 : 1);
    };
    std::vector<R> u(static_cast<size_t>(T * V));
    for (int64_t t = 0; t < T; ++t) {
        for (int64_t j = 0; j < V; ++j) {
            R value = x.v[t * x.v_row + j];
            if (rec.write == Write::delta)
                for (int64_t i = 0; i < t; ++i)
                    value -= product(x.k + t * x.k_row, t, i, 0, 0) * u[i * V + j];
            u[t * V + j] = rec.has_stabiliser() ? value : value * w_of(t);
        }
    }
    for (int64_t t = 0; t < T; ++t) {
        R m = rec.has_stabiliser() ? -std::numeric_limits<R>::infinity() : R(0);
        if (rec.has_stabiliser())
            for (int64_t i = 0; i <= t; ++i) m = std::max(m, sum_of_g(i, t, 0) + w_of(i));
        for (int64_t h = 0; h < rec.n_queries; ++h) {
            const R* const q = x.q + t * x.q_row + h * K;
            std::vector<R> sum(static_cast<size_t>(V));
            R den = 0;
            for (int64_t i = 0; i <= t; ++i) {
                R weight = 0;
                if (rec.has_bonus && i == t) {
                    for (int64_t c = 0; c < K; ++c)
                        weight += q[c] * x.bonus[c] * x.k[t * x.k_row + c];
                } else {
                    const R exponent = rec.has_stabiliser() ? w_of(i) - m : R(0);
                    weight = product(q, t, i, exponent, rec.has_bonus ? 1 : 0);
                }
                weight *= static_cast<R>(rec.scale);
                den += rec.write == Write::plain ? weight * w_of(i) : weight;
                for (int64_t j = 0; j < V; ++j) sum[j] += weight * u[i * V + j];
            }
            const R by = divisor<R>(rec, x, t, h, den, m);
            for (int64_t j = 0; j < V; ++j) x.y[t * x.y_row + h * V + j] = sum[j] / by;
        }
    }
}

}  // namespace bifocal::linear
