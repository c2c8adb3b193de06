// The steps around the recurrence, one function each, template on the number type: in double they
// are the definition, in float what runs. README.md has the equations.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "core/huge_memory.h"
#include "mixers/linear/config.h"
#include "ops/vector.h"

namespace bifocal::linear {

inline constexpr int64_t kMaxConvolution = 16;  // taps

template <class R>
R sigmoid(R x) {
    return 1 / (1 + std::exp(-x));
}
template <class R>
R softplus(R x) {
    return std::max(x, R(0)) + std::log1p(std::exp(-std::abs(x)));
}
template <class R>
R silu(R x) {
    return x * sigmoid(x);
}

template <class R>
void softmax(std::span<R> x) {
    const R top = *std::ranges::max_element(x);
    R sum = 0;
    for (R& value : x) sum += value = std::exp(value - top);
    for (R& value : x) value /= sum;
}
inline void softmax(std::span<float> x) {
    const float sum = ops::exp_sum(x, ops::max(x));
    ops::scale(1 / sum, x);
}

// Everything of a layer that is no projection.
template <class R>
struct Params {
    struct Convolution {
        std::vector<R> weight, bias;  // [channels, width], [channels]
    };
    Convolution conv_q, conv_k, conv_v;
    std::vector<R> q_norm, k_norm;  // [head_dim], the layer's offset added
    HugeVector<R> q_map, k_map;     // of learned maps: [heads, in, out]; of dct_softmax: [in, out]
    std::vector<R> rate, dt_bias;   // exp(A_log); biases of the decay
    std::vector<R> log_decays;
    std::vector<R> skip;                    // [states]
    std::vector<R> norm_weight, norm_bias;  // of the output
    std::vector<R> bonus;                   // [states, K]
    std::vector<R> shift_mu, shift_bias;    // [M], [5, M]
};

// [heads, out, in] to [heads, in, out]: rows that a product can run along.
template <class R>
HugeVector<R> transposed(const std::vector<R>& map, int64_t n_in, int64_t n_out) {
    HugeVector<R> turned(map.size());
    const int64_t heads = std::ssize(map) / (n_in * n_out);
    for (int64_t h = 0; h < heads; ++h)
        for (int64_t o = 0; o < n_out; ++o)
            for (int64_t i = 0; i < n_in; ++i)
                turned[(h * n_in + i) * n_out + o] = map[(h * n_out + o) * n_in + i];
    return turned;
}

// Element [i, o] of the orthonormal cosine transform of D numbers.
template <class R>
R cosine(int64_t i, int64_t o, int64_t D) {
    const R angle = static_cast<R>(std::numbers::pi) * (R(i) + R(0.5)) * R(o) / R(D);
    return std::sqrt((o == 0 ? R(1) : R(2)) / R(D)) * std::cos(angle);
}

// get(name): the weight as numbers, empty when the layer has none; norms with their offset.
template <class R, class Get>
Params<R> read_params(const LinearConfig& config, Get get) {
    const std::string& at = config.prefix;
    Params<R> p;
    const int64_t D = config.head_dim, K = config.key_dim();
    if (config.conv_width > 0 && config.is_fused) {
        const std::vector<R> all = get(at + "conv1d.weight");
        auto from = all.begin();
        for (auto [conv, channels] :
             {std::pair{&p.conv_q, config.n_query * D}, std::pair{&p.conv_k, config.n_key * D},
              std::pair{&p.conv_v, config.n_value * config.value_dim()}}) {
            conv->weight.assign(from, from + channels * config.conv_width);
            from += channels * config.conv_width;
        }
    } else if (config.conv_width > 0) {
        for (auto [conv, name] :
             {std::pair{&p.conv_q, "q_conv1d"}, std::pair{&p.conv_k, "k_conv1d"},
              std::pair{&p.conv_v, "v_conv1d"}}) {
            conv->weight = get(at + name + ".weight");
            conv->bias = get(at + name + ".bias");
        }
    }
    if (config.has_qk_norm) {
        p.q_norm = get(config.qkv_prefix + "q_norm.weight");
        p.k_norm = get(config.qkv_prefix + "k_norm.weight");
    }
    switch (config.feature_map) {
        case FeatureMap::learned_softmax:
        case FeatureMap::hedgehog: {
            const int64_t out = config.feature_map == FeatureMap::hedgehog ? K / 2 : K;
            p.q_map = transposed(get(at + "feature_map.q.weight"), D, out);
            p.k_map = transposed(get(at + "feature_map.k.weight"), D, out);
            break;
        }
        case FeatureMap::dct_softmax: {
            const std::vector<R> frequency = get(at + "feature_map.weight");
            for (int64_t i = 0; i < D; ++i)
                for (int64_t o = 0; o < D; ++o)
                    p.q_map.push_back(cosine<R>(i, o, D) * frequency[o]);
            p.k_map = p.q_map;
            break;
        }
        default:
            break;
    }
    if (config.decay == Decay::softplus_rate || config.decay == Decay::bounded_rate) {
        for (const R a : get(at + "A_log")) p.rate.push_back(std::exp(a));
        p.dt_bias = get(at + "dt_bias");
    }
    p.log_decays.assign(config.log_decays.begin(), config.log_decays.end());
    if (config.has_skip) p.skip = get(at + "D");
    if (config.output_norm != OutputNorm::none) {
        p.norm_weight = get(at + config.output_norm_name + ".weight");
        p.norm_bias = get(at + config.output_norm_name + ".bias");
    }
    if (config.recurrence.has_bonus) p.bonus = get(at + "bonus");
    if (config.shift_rank > 0) {
        p.shift_mu = get(at + "token_shift.mu");
        p.shift_bias = get(at + "token_shift.bias");
    }
    return p;
}

// y[t, c] = silu(sum over j of weight[c, j] x[t - width + 1 + j, c] + bias[c]) of one channel c,
// in place. tail: the channel's inputs before, and afterwards its last ones; [width - 1], tail_row
// apart.
template <class R>
void convolve(const typename Params<R>::Convolution& conv, int64_t width, int64_t c, R* x,
              int64_t x_row, int64_t n, R* tail, int64_t tail_row) {
    const int64_t held = width - 1;
    const R bias = conv.bias.empty() ? R(0) : conv.bias[c];
    R window[kMaxConvolution];  // the newest last
    for (int64_t j = 0; j < held; ++j) window[j] = tail[j * tail_row];
    for (int64_t t = 0; t < n; ++t) {
        window[held] = x[t * x_row];
        R sum = bias;
        for (int64_t j = 0; j < width; ++j) sum += conv.weight[c * width + j] * window[j];
        x[t * x_row] = silu(sum);
        std::copy(window + 1, window + width, window);
    }
    for (int64_t j = 0; j < held; ++j) tail[j * tail_row] = window[j];
}

template <class R>
void rms_norm(std::span<R> x, const R* weight, R eps) {
    R sum = 0;
    for (const R value : x) sum += value * value;
    const R scale = 1 / std::sqrt(sum / static_cast<R>(x.size()) + eps);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * weight[i];
}

template <class R>
void product(const R* x, const R* matrix, int64_t n_in, int64_t n_out, R* y) {
    for (int64_t o = 0; o < n_out; ++o) {
        R sum = 0;
        for (int64_t i = 0; i < n_in; ++i) sum += x[i] * matrix[i * n_out + o];
        y[o] = sum;
    }
}
inline void product(const float* x, const float* matrix, int64_t n_in, int64_t n_out, float* y) {
    ops::kernels().small_product({1, n_out, n_in, x, n_in, 1, matrix, n_out, y, n_out, false});
}

// φ of one head, then the l2 norm. `map`: the head's matrix of a learned map. x: [head_dim], y: [K]
template <class R>
void find_features(const LinearConfig& config, const R* map, const R* x, R* y) {
    const int64_t D = config.head_dim, K = config.key_dim();
    const std::span<R> all(y, static_cast<size_t>(K));
    switch (config.feature_map) {
        case FeatureMap::identity:
            std::copy_n(x, D, y);
            break;
        case FeatureMap::elu_plus_one:
            for (int64_t i = 0; i < D; ++i) y[i] = x[i] > 0 ? x[i] + 1 : std::exp(x[i]);
            break;
        case FeatureMap::softmax:
            std::copy_n(x, D, y);
            softmax(all);
            break;
        case FeatureMap::learned_softmax:
        case FeatureMap::dct_softmax:
            product(x, map, D, K, y);
            softmax(all);
            break;
        case FeatureMap::hedgehog: {
            product(x, map, D, K / 2, y);
            for (int64_t i = 0; i < K / 2; ++i) y[K / 2 + i] = -y[i];
            softmax(all.first(static_cast<size_t>(K / 2)));
            softmax(all.last(static_cast<size_t>(K / 2)));
            for (R& value : all) value = std::max(value, R(1e-12));
            break;
        }
    }
    if (!config.has_l2_norm) return;
    R sum = 0;
    for (const R value : all) sum += value * value;
    const R scale = 1 / std::sqrt(sum + R(1e-6));
    for (R& value : all) value *= scale;
}

// Log decays g [states] or [states, K] and strengths w [states] of one token from their
// pre-activations; g may be `decay`, w may be `strength`.
template <class R>
void find_gates(const LinearConfig& config, const Params<R>& p, const R* decay, const R* strength,
                R* g, R* w) {
    const int64_t S = config.n_states;
    const int64_t width = config.recurrence.decays_by_channel ? config.key_dim() : 1;
    const auto cap = static_cast<R>(config.soft_cap);
    const auto capped = [&](R x) { return cap > 0 ? cap * std::tanh(x / cap) : x; };
    for (int64_t s = 0; s < S; ++s) {
        if (config.strength == Strength::raw) w[s] = capped(strength[s]);
        if (config.strength == Strength::sigmoid)
            w[s] = static_cast<R>(config.strength_factor) * sigmoid(capped(strength[s]));
        if (config.strength == Strength::softplus) w[s] = softplus(strength[s] + p.dt_bias[s]);
        for (int64_t i = s * width; i < (s + 1) * width; ++i) {
            switch (config.decay) {
                case Decay::none:
                    g[i] = 0;
                    break;
                case Decay::constant:
                    g[i] = p.log_decays[s];
                    break;
                case Decay::log_sigmoid:
                    g[i] = -softplus(-capped(decay[i])) / static_cast<R>(config.decay_divisor);
                    break;
                case Decay::softplus_rate:
                    g[i] = -p.rate[s] * softplus(decay[i] + p.dt_bias[i]);
                    break;
                case Decay::bounded_rate:
                    g[i] = static_cast<R>(config.decay_bound) *
                           sigmoid(p.rate[s] * (decay[i] + p.dt_bias[i]));
                    break;
                case Decay::exponential:
                    g[i] = std::max(-std::exp(decay[i]), static_cast<R>(config.decay_bound));
                    break;
            }
        }
    }
}

// One token between its projections and the recurrence.
template <class R>
struct TokenRow {
    R *q, *k, *v;         // as projected and convolved
    R *decay, *strength;  // pre-activations, which become g and w
    R *q_features, *k_features;
};

// The steps before the feature map. rotate(head): RoPE at the token's position, or nothing.
template <class R, class Rotate>
void prepare_heads(const LinearConfig& config, const Params<R>& p, const TokenRow<R>& at,
                   R norm_eps, Rotate rotate) {
    const int64_t D = config.head_dim;
    const auto activate = [](Activation activation, R* x, int64_t n) {
        if (activation == Activation::silu)
            for (int64_t i = 0; i < n; ++i) x[i] = silu(x[i]);
    };
    activate(config.v_activation, at.v, config.n_value * config.value_dim());
    if (config.decays_from_keys)
        for (int64_t s = 0; s < config.n_states; ++s)
            std::copy_n(at.k + s * config.n_key / config.n_states * D, D, at.decay + s * D);
    for (auto [x, heads, norm] :
         {std::tuple{at.q, config.n_query, &p.q_norm}, std::tuple{at.k, config.n_key, &p.k_norm}}) {
        activate(config.qk_activation, x, heads * D);
        for (int64_t h = 0; h < heads; ++h) {
            const std::span<R> head(x + h * D, static_cast<size_t>(D));
            if (!norm->empty()) rms_norm(head, norm->data(), norm_eps);
            rotate(head.data());
        }
    }
}

// Features of head h of the query heads and, after them, of those of keys.
template <class R>
void find_features_of(const LinearConfig& config, const Params<R>& p, const TokenRow<R>& at,
                      int64_t h) {
    const int64_t D = config.head_dim, K = config.key_dim(), n_keys = config.n_key_features();
    const auto map_of = [&](const HugeVector<R>& maps, int64_t head) -> const R* {
        if (maps.empty()) return nullptr;
        const bool is_shared = config.feature_map == FeatureMap::dct_softmax;
        const int64_t out = config.feature_map == FeatureMap::hedgehog ? K / 2 : K;
        return maps.data() + (is_shared ? 0 : head * D * out);
    };
    if (h < config.n_query)
        return find_features(config, map_of(p.q_map, h), at.q + h * D, at.q_features + h * K);
    h -= config.n_query;
    find_features(config, map_of(p.k_map, h), at.k + h * config.n_key / n_keys * D,
                  at.k_features + h * K);
}

// The steps after it.
template <class R>
void finish_token(const LinearConfig& config, const Params<R>& p, const TokenRow<R>& at) {
    find_gates(config, p, at.decay, at.strength, at.decay, at.strength);
    if (config.balances_keys)
        for (int64_t i = 0; i < config.n_states * config.key_dim(); ++i)
            at.k_features[i] *= -std::expm1(at.decay[i]);
}

// All of them.
template <class R, class Rotate>
void prepare_token(const LinearConfig& config, const Params<R>& p, const TokenRow<R>& at,
                   R norm_eps, Rotate rotate) {
    prepare_heads(config, p, at, norm_eps, rotate);
    for (int64_t h = 0; h < config.n_feature_heads(); ++h) find_features_of(config, p, at, h);
    finish_token(config, p, at);
}

// The rows of one sequence, as the recurrence finds them.
template <class R>
struct SequenceRows {
    R *q_features, *k_features, *v, *g, *w, *y;
};

// What state head s gets of them; consecutive query heads share a state if there are more of them.
template <class R>
Tokens<R> tokens_of_state(const LinearConfig& config, const Params<R>& p, int64_t s, int64_t n,
                          const SequenceRows<R>& rows) {
    const int64_t S = config.n_states, K = config.key_dim(), V = config.value_dim();
    const int64_t keys = config.n_key_features(), G = config.recurrence.n_queries;
    Tokens<R> x;
    x.n = n;
    x.q = rows.q_features + config.head_of_state(s, config.n_query) * K;
    x.q_row = config.n_query * K;
    x.k = rows.k_features + config.head_of_state(s, keys) * K;
    x.k_row = keys * K;
    x.v = rows.v + config.head_of_state(s, config.n_value) * V;
    x.v_row = config.n_value * V;
    const int64_t width = config.recurrence.decays_by_channel ? K : 1;
    x.g = rows.g + s * width;
    x.g_row = S * width;
    if (config.strength != Strength::one) x.w = rows.w + s;
    x.w_row = S;
    x.y = rows.y + s * G * V;
    x.y_row = config.n_out_heads() * V;
    if (!p.bonus.empty()) x.bonus = p.bonus.data() + s * K;
    return x;
}

template <class R>
void apply_gate(const LinearConfig& config, const R* gate, std::span<R> y) {
    for (size_t i = 0; i < y.size(); ++i)
        y[i] *= config.output_gate == OutputGate::silu ? silu(gate[i]) : sigmoid(gate[i]);
}

// What comes after the recurrence for one token: y [H·V] in place.
template <class R>
void finish_output(const LinearConfig& config, const Params<R>& p, const R* v, const R* gate,
                   R* y) {
    const int64_t H = config.n_out_heads(), V = config.value_dim();
    const auto eps = static_cast<R>(config.output_norm_eps);
    const std::span<R> all(y, static_cast<size_t>(H * V));
    for (int64_t h = 0; h < H && config.has_skip; ++h) {
        const R* const value = v + h * config.n_value / H * V;
        for (int64_t j = 0; j < V; ++j) y[h * V + j] += p.skip[h] * value[j];
    }
    const bool has_gate = config.output_gate != OutputGate::none;
    if (has_gate && config.gates_before_norm) apply_gate(config, gate, all);
    const R* const weight = p.norm_weight.data();
    // Mean 0, variance 1 over what `at` counts.
    const auto standardise = [&](int64_t n, auto at) {
        R mean = 0, variance = 0;
        for (int64_t i = 0; i < n; ++i) mean += y[at(i)];
        mean /= static_cast<R>(n);
        for (int64_t i = 0; i < n; ++i) variance += (y[at(i)] - mean) * (y[at(i)] - mean);
        const R scale = 1 / std::sqrt(variance / static_cast<R>(n) + eps);
        for (int64_t i = 0; i < n; ++i) {
            R& value = y[at(i)];
            value = (value - mean) * scale * weight[at(i)];
            if (!p.norm_bias.empty()) value += p.norm_bias[at(i)];
        }
    };
    switch (config.output_norm) {
        case OutputNorm::none:
            break;
        case OutputNorm::rms_all:
            rms_norm(all, weight, eps);
            break;
        case OutputNorm::rms_norm:
            for (int64_t h = 0; h < H; ++h)
                rms_norm({y + h * V, static_cast<size_t>(V)}, weight, eps);
            break;
        case OutputNorm::rms_grouped:
            for (int64_t h = 0; h < H; ++h)
                rms_norm({y + h * V, static_cast<size_t>(V)}, weight + h * V, eps);
            break;
        case OutputNorm::layer_norm:
        case OutputNorm::layer_norm_biased:
            for (int64_t h = 0; h < H; ++h) standardise(V, [&](int64_t i) { return h * V + i; });
            break;
        case OutputNorm::group_norm:  // V groups of H channels that lie side by side
            for (int64_t j = 0; j < V; ++j) standardise(H, [&](int64_t i) { return j * H + i; });
            break;
    }
    if (has_gate && !config.gates_before_norm) apply_gate(config, gate, all);
}

}  // namespace bifocal::linear
