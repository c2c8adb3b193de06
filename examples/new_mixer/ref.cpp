// The definition of NAME_, equation by equation. README.md has the numbers.
#include "mixers/NAME_/NAME_.h"
#include "mixers/shared/reference_ops.h"

namespace bifocal {

template <class Real>
void NAME__reference(const Name_Config& config, const LayerContext& context,
                     const ReferenceWeights& weights, View<double, 2> x) {
    const int64_t T = x.shape[0], D = context.head_dim;
    const int64_t group = context.n_heads / context.n_kv_heads;
    ReferenceRows<Real> normed(T);
    for (int64_t t = 0; t < T; ++t) {
        normed[t].assign(x.row(t).begin(), x.row(t).end());
        reference_norm<Real>(normed[t], weights.at("input_layernorm.weight"), context);  // (1)
    }
    const auto v =
        reference_project(normed, weights, "self_attn.v_proj", context.precision);  // (2)
    const auto decay = static_cast<Real>(config.decay);
    ReferenceRows<Real> heads(T, std::vector<Real>(static_cast<size_t>(context.n_heads * D)));
    for (int64_t i = 0; i < context.n_kv_heads * D; ++i) {
        Real mean = 0;
        for (int64_t t = 0; t < T; ++t) {
            mean = decay * mean + (1 - decay) * v[t][i];  // (3)
            for (int64_t r = 0; r < group; ++r) heads[t][(i / D * group + r) * D + i % D] = mean;
        }
    }
    const auto out = reference_project(heads, weights, "self_attn.o_proj", context.precision);
    for (int64_t t = 0; t < T; ++t) {
        for (int64_t m = 0; m < context.d_model; ++m) {
            x(t, m) = static_cast<Real>(x(t, m)) + out[t][m];  // (4)
        }
    }
}

template void NAME__reference<double>(const Name_Config&, const LayerContext&,
                                      const ReferenceWeights&, View<double, 2>);
template void NAME__reference<float>(const Name_Config&, const LayerContext&,
                                     const ReferenceWeights&, View<double, 2>);

}  // namespace bifocal
