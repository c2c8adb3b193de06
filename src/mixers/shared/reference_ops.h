// What references of mixers are made of, template on the number type: in double the definition, in
// float the plain path. Loops as one would write them on paper.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "core/check.h"
#include "mixers/shared/weights.h"

namespace bifocal {

template <class Real>
using ReferenceRows = std::vector<std::vector<Real>>;  // [T, width]

// The plain path of a reference: the same in float.
template <class Forward>
ReferenceForward in_float(Forward forward) {
    return [forward](View<double, 2> x) {
        std::vector<float> plain(x.data, x.data + x.size());
        forward(View<float, 2>(plain.data(), x.shape));
        std::copy(plain.begin(), plain.end(), x.data);
    };
}

// x / rms(x) · (w + offset), in place.
template <class Real>
void reference_norm(std::span<Real> x, const ReferenceWeight& weight, const LayerContext& context) {
    Real sum = 0;
    for (const Real value : x) sum += value * value;
    const Real scale =
        1 / std::sqrt(sum / static_cast<Real>(x.size()) + static_cast<Real>(context.norm_eps));
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] *=
            scale * (static_cast<Real>(weight.values[i]) + static_cast<Real>(context.norm_offset));
    }
}

// What joins the residual stream at x: x += result, or as the layer's residual says; `result` is
// overwritten.
template <class Real>
void reference_join(std::span<Real> result, const ReferenceWeights& weights,
                    const LayerContext& context, std::span<Real> x) {
    const auto norm = [&](std::span<Real> row, std::string_view name) {
        reference_norm(row, weights.find(name)->second, context);
    };
    if (context.post_norm) norm(result, "post_attention_layernorm.weight");
    if (context.residual) {
        norm(x, "input_layernorm.weight");
        for (Real& value : x) value *= static_cast<Real>(context.residual->stream);
        for (Real& value : result) value *= static_cast<Real>(context.residual->branch);
    }
    for (size_t i = 0; i < x.size(); ++i) x[i] += result[i];
}

// RoPE of one head at position `pos`, in place.
template <class Real>
void reference_rotate(const ops::RopeTable& table, int64_t pos, Real* head) {
    const int64_t half = table.rotary_dim / 2;
    for (int64_t j = 0; j < half; ++j) {
        const double angle = static_cast<double>(pos) * table.inv_freq[j];
        const auto cos = static_cast<Real>(std::cos(angle) * table.attention_factor);
        const auto sin = static_cast<Real>(std::sin(angle) * table.attention_factor);
        const bool is_half = table.style == ops::RopeStyle::half;
        Real& a = head[is_half ? j : 2 * j];
        Real& b = head[is_half ? j + half : 2 * j + 1];
        const Real turned = a * cos - b * sin;
        b = b * cos + a * sin;
        a = turned;
    }
}

// Of rows that have [query | gate] for each head: the queries (part 0) or the gates (1), [T, H·D].
template <class Real>
ReferenceRows<Real> reference_part(const ReferenceRows<Real>& rows, int64_t head_dim,
                                   int64_t part) {
    ReferenceRows<Real> kept(rows.size());
    for (size_t t = 0; t < rows.size(); ++t)
        for (size_t i = 0; i < rows[t].size(); ++i)
            if (static_cast<int64_t>(i) / head_dim % 2 == part) kept[t].push_back(rows[t][i]);
    return kept;
}

// What int8 activations make of x: blocks of 32 in steps of max|x| / 127.
template <class Real>
std::vector<Real> reference_int8(std::span<const Real> x) {
    std::vector<Real> y(x.begin(), x.end());
    for (size_t b = 0; b + 32 <= x.size(); b += 32) {
        Real top = 0;
        for (size_t i = b; i < b + 32; ++i) top = std::max(top, std::abs(x[i]));
        if (top == 0) continue;
        for (size_t i = b; i < b + 32; ++i) y[i] = std::nearbyint(x[i] * 127 / top) * (top / 127);
    }
    return y;
}

// x Wᵀ + b of "NAME.weight" [out, in] and, if there is one, "NAME.bias" [out].
template <class Real>
ReferenceRows<Real> reference_project(const ReferenceRows<Real>& in,
                                      const ReferenceWeights& weights, const std::string& name,
                                      Precision precision) {
    const auto found = weights.find(name + ".weight");
    BIFOCAL_CHECK(found != weights.end(), "the layer has no weight '{}.weight'", name);
    const ReferenceWeight& w = found->second;
    const auto bias = weights.find(name + ".bias");
    const bool rounds = w.is_quantised && precision == Precision::fast;
    ReferenceRows<Real> out(in.size());
    for (size_t t = 0; t < in.size(); ++t) {
        const std::vector<Real> x = rounds ? reference_int8<Real>(in[t]) : in[t];
        out[t].resize(static_cast<size_t>(w.shape[0]));
        for (int64_t r = 0; r < w.shape[0]; ++r) {
            Real sum = 0;
            for (int64_t i = 0; i < w.shape[1]; ++i) {
                sum += static_cast<Real>(w.values[r * w.shape[1] + i]) * x[i];
            }
            if (bias != weights.end()) sum += static_cast<Real>(bias->second.values[r]);
            out[t][r] = sum;
        }
    }
    return out;
}

}  // namespace bifocal
