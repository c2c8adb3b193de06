// The steps of steps.h taken back, one function each. x is what a step got, dy the gradient of what
// it gave; README.md has the equations.
#pragma once

#include "core/check.h"
#include "mixers/linear/steps.h"

namespace bifocal::linear {

template <class R>
R silu_slope(R x) {
    const R s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

// The configuration of a step alone, without what comes right before or after it.
inline LinearConfig without_l2_norm(LinearConfig config) {
    config.has_l2_norm = false;
    return config;
}
inline LinearConfig without_skip_and_gate(LinearConfig config) {
    config.has_skip = false;
    config.output_gate = OutputGate::none;
    return config;
}

// φ of one head, `bare` without the l2 norm. x: [head_dim]; df: [K], becomes the gradient of what a
// map gave; dx: added to. f: [K] of scratch
template <class R>
void features_backward(const LinearConfig& config, const LinearConfig& bare, const R* map,
                       const R* x, R* df, R* dx, R* f) {
    const int64_t D = config.head_dim, K = config.key_dim();
    find_features(bare, map, x, f);
    if (config.has_l2_norm) {
        R sum = R(1e-6), along = 0;
        for (int64_t i = 0; i < K; ++i) sum += f[i] * f[i], along += f[i] * df[i];
        const R scale = 1 / std::sqrt(sum);
        for (int64_t i = 0; i < K; ++i) df[i] = scale * (df[i] - f[i] * along / sum);
    }
    const auto softmax_back = [&] {
        R along = 0;
        for (int64_t i = 0; i < K; ++i) along += f[i] * df[i];
        for (int64_t i = 0; i < K; ++i) df[i] = f[i] * (df[i] - along);
    };
    switch (config.feature_map) {
        case FeatureMap::elu_plus_one:
            for (int64_t i = 0; i < D; ++i) df[i] *= x[i] > 0 ? R(1) : f[i];
            break;
        case FeatureMap::softmax:
            softmax_back();
            break;
        case FeatureMap::learned_softmax:
        case FeatureMap::dct_softmax:
            softmax_back();
            for (int64_t i = 0; i < D; ++i)
                for (int64_t o = 0; o < K; ++o) dx[i] += map[i * K + o] * df[o];
            return;
        case FeatureMap::identity:
            break;
        case FeatureMap::hedgehog:
            BIFOCAL_CHECK(false, "hedgehog features have no backward");
    }
    for (int64_t i = 0; i < D; ++i) dx[i] += df[i];
}

// What one state's gates do to their pre-activations and parameters.
template <class R>
struct GateGrads {
    R *ddecay, *dstrength;  // [width], [1]; overwritten where the layer has them
    R *drate, *ddt_bias;    // [1] of A_log, [width]; added to
};

// decay, strength: pre-activations of one token's state s; dg [width], dw [1].
template <class R>
void gates_backward(const LinearConfig& config, const Params<R>& p, int64_t s, const R* decay,
                    const R* strength, const R* dg, const R* dw, const GateGrads<R>& to) {
    const int64_t width = config.recurrence.decays_by_channel ? config.key_dim() : 1;
    const auto cap = static_cast<R>(config.soft_cap);
    const auto capped = [&](R x) { return cap > 0 ? cap * std::tanh(x / cap) : x; };
    const auto slope = [&](R x) {
        if (!(cap > 0)) return R(1);
        const R t = std::tanh(x / cap);
        return 1 - t * t;
    };
    if (config.strength == Strength::raw) to.dstrength[0] = dw[0] * slope(strength[0]);
    if (config.strength == Strength::sigmoid) {
        const R open = sigmoid(capped(strength[0]));
        to.dstrength[0] =
            dw[0] * static_cast<R>(config.strength_factor) * open * (1 - open) * slope(strength[0]);
    }
    if (config.strength == Strength::softplus) {
        to.dstrength[0] = dw[0] * sigmoid(strength[0] + p.dt_bias[s]);
        to.ddt_bias[0] += to.dstrength[0];
    }
    for (int64_t i = 0; i < width; ++i) {
        const int64_t at = s * width + i;
        switch (config.decay) {
            case Decay::none:
            case Decay::constant:
                break;
            case Decay::log_sigmoid:
                to.ddecay[i] = dg[i] * sigmoid(-capped(decay[i])) * slope(decay[i]) /
                               static_cast<R>(config.decay_divisor);
                break;
            case Decay::softplus_rate: {
                const R x = decay[i] + p.dt_bias[at];
                to.ddecay[i] = -dg[i] * p.rate[s] * sigmoid(x);
                to.drate[0] -= dg[i] * p.rate[s] * softplus(x);
                to.ddt_bias[i] += to.ddecay[i];
                break;
            }
            case Decay::bounded_rate: {
                const R x = p.rate[s] * (decay[i] + p.dt_bias[at]), open = sigmoid(x);
                const R dx = dg[i] * static_cast<R>(config.decay_bound) * open * (1 - open);
                to.ddecay[i] = dx * p.rate[s];
                to.drate[0] += dx * x;
                to.ddt_bias[i] += to.ddecay[i];
                break;
            }
            case Decay::exponential:
                BIFOCAL_CHECK(false, "exponential decays have no backward");
        }
    }
}

// The convolution and SiLU of one channel; rows of x and its tail as in convolve(). dx, dtail: x's
// gradients, added to; dtail comes in as that of the tail behind the tokens. dweight: [width].
template <class R>
void convolve_backward(const typename Params<R>::Convolution& conv, int64_t width, int64_t c,
                       const R* x, int64_t row, int64_t n, const R* tail, const R* dy, R* dx,
                       R* dtail, R* dweight, R* dbias) {
    const int64_t held = width - 1;
    const R bias = conv.bias.empty() ? R(0) : conv.bias[c];
    R after[kMaxConvolution] = {};
    for (int64_t j = 0; j < held && dtail; ++j) std::swap(after[j], dtail[j * row]);
    R before[kMaxConvolution] = {};  // gradients of the tail before the tokens
    const auto input = [&](int64_t i) {
        if (i >= held) return x[(i - held) * row];
        return tail ? tail[i * row] : R(0);
    };
    const auto gradient = [&](int64_t i) -> R& {
        return i < held ? before[i] : dx[(i - held) * row];
    };
    for (int64_t j = 0; j < held; ++j) gradient(n + j) += after[j];
    for (int64_t t = 0; t < n; ++t) {
        R sum = bias;
        for (int64_t j = 0; j < width; ++j) sum += conv.weight[c * width + j] * input(t + j);
        const R ds = dy[t * row] * silu_slope(sum);
        for (int64_t j = 0; j < width; ++j) {
            gradient(t + j) += conv.weight[c * width + j] * ds;
            if (dweight) dweight[j] += ds * input(t + j);
        }
        if (dbias) *dbias += ds;
    }
    for (int64_t j = 0; j < held && dtail; ++j) dtail[j * row] = before[j];
}

// Gradients of finish_output() for one token.
template <class R>
struct FinishGrads {
    R* dgate;                    // [H·V], overwritten; null without a gate
    R *dskip, *dweight, *dbias;  // [H], as the norm's; added to
    R* scratch;                  // [3, H·V]
};

// y: what the recurrence gave, [H·V]; dy in place. `norm`: the norm alone.
template <class R>
void finish_backward(const LinearConfig& config, const LinearConfig& norm, const Params<R>& p,
                     const R* v, const R* gate, const R* y, R* dy, const FinishGrads<R>& to) {
    const int64_t H = config.n_out_heads(), V = config.value_dim(), n = H * V;
    R* const before = to.scratch;     // the norm
    R* const after = to.scratch + n;  // the norm
    const bool has_gate = config.output_gate != OutputGate::none;
    const auto open = [&](int64_t i) {
        return config.output_gate == OutputGate::silu ? silu(gate[i]) : sigmoid(gate[i]);
    };
    const auto slope = [&](int64_t i) {
        const R s = sigmoid(gate[i]);
        return config.output_gate == OutputGate::silu ? silu_slope(gate[i]) : s * (1 - s);
    };
    R* const plain = to.scratch + 2 * n;  // with the skip, before anything else
    for (int64_t i = 0; i < n; ++i) {
        plain[i] = y[i];
        if (config.has_skip) plain[i] += p.skip[i / V] * v[i / V * config.n_value / H * V + i % V];
        before[i] = plain[i] * (has_gate && config.gates_before_norm ? open(i) : R(1));
    }
    if (has_gate && !config.gates_before_norm) {
        std::copy_n(before, n, after);
        finish_output<R>(norm, p, v, gate, after);
        for (int64_t i = 0; i < n; ++i) {
            to.dgate[i] = dy[i] * after[i] * slope(i);
            dy[i] *= open(i);
        }
    }
    // One group of the norm: elements at(0), at(1), ... and their weights.
    const auto group_back = [&](int64_t size, bool centres, auto at, auto weight_of) {
        R mean = 0, variance = 0, sum = 0, along = 0;
        for (int64_t i = 0; i < size && centres; ++i) mean += before[at(i)];
        mean /= static_cast<R>(size);
        for (int64_t i = 0; i < size; ++i)
            variance += (before[at(i)] - mean) * (before[at(i)] - mean);
        const R scale =
            1 / std::sqrt(variance / static_cast<R>(size) + static_cast<R>(config.output_norm_eps));
        for (int64_t i = 0; i < size; ++i) {
            R& d = dy[at(i)];
            const R normed = (before[at(i)] - mean) * scale;
            to.dweight[weight_of(i)] += d * normed;
            if (!p.norm_bias.empty()) to.dbias[weight_of(i)] += d;
            d *= p.norm_weight[weight_of(i)];
            sum += d;
            along += d * normed;
        }
        sum = centres ? sum / static_cast<R>(size) : R(0);
        along /= static_cast<R>(size);
        for (int64_t i = 0; i < size; ++i) {
            R& d = dy[at(i)];
            d = scale * (d - sum - (before[at(i)] - mean) * scale * along);
        }
    };
    const auto itself = [](int64_t i) { return i; };
    switch (config.output_norm) {
        case OutputNorm::none:
            break;
        case OutputNorm::rms_all:
            group_back(n, false, itself, itself);
            break;
        case OutputNorm::rms_norm:
        case OutputNorm::rms_grouped:
        case OutputNorm::layer_norm:
        case OutputNorm::layer_norm_biased:
            for (int64_t h = 0; h < H; ++h) {
                const auto at = [&](int64_t i) { return h * V + i; };
                const bool is_shared = config.output_norm == OutputNorm::rms_norm;
                const bool is_rms = is_shared || config.output_norm == OutputNorm::rms_grouped;
                group_back(V, !is_rms, at, [&](int64_t i) { return is_shared ? i : at(i); });
            }
            break;
        case OutputNorm::group_norm:
            for (int64_t j = 0; j < V; ++j) {
                const auto at = [&](int64_t i) { return j * H + i; };
                group_back(H, true, at, at);
            }
            break;
    }
    for (int64_t i = 0; i < n; ++i) {
        if (has_gate && config.gates_before_norm) {
            to.dgate[i] = dy[i] * plain[i] * slope(i);
            dy[i] *= open(i);
        }
        if (config.has_skip) to.dskip[i / V] += dy[i] * v[i / V * config.n_value / H * V + i % V];
    }
}

}  // namespace bifocal::linear
