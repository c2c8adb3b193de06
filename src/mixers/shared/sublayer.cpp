#include "mixers/shared/sublayer.h"

#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"
#include "ops/norm.h"
#include "ops/vector.h"

namespace bifocal {

std::vector<WeightSpec> Sublayer::weights(const LayerContext& context, const std::string& out,
                                          int64_t n_in) {
    const int64_t M = context.d_model;
    std::vector<WeightSpec> list{
        {"input_layernorm.weight", {M}},
        {out + ".weight", {M, n_in}, true, init::copy_of("self_attn.o_proj.weight")}};
    if (context.out_bias)
        list.push_back({out + ".bias", {M}, true, init::copy_of("self_attn.o_proj.bias")});
    if (context.post_norm) list.push_back({"post_attention_layernorm.weight", {M}});
    return list;
}

Status Sublayer::bind(const LayerContext& context, const std::string& out,
                      const WeightMap& weights) {
    norm_eps_ = context.norm_eps;
    residual_ = context.residual;
    norm_ = float_weight(weights, "input_layernorm.weight", context.norm_offset);
    if (context.post_norm)
        post_norm_ = float_weight(weights, "post_attention_layernorm.weight", context.norm_offset);
    BIFOCAL_TRY(out_, ops::Linear::make(out, *find_weight(weights, out + ".weight"),
                                        find_weight(weights, out + ".bias"), context.precision));
    return {};
}

void Sublayer::norm(View<const float, 2> x, View<float, 2> normed, Exec& exec) const {
    ops::rms_norm(x, norm_, norm_eps_, normed, exec);
}

void Sublayer::add_result(View<const float, 2> y, View<float, 2> normed, View<float, 2> x,
                          Exec& exec) const {
    if (post_norm_.empty() && !residual_) {
        const ops::LinearCall call{&out_, x, /*accumulate=*/true};
        ops::linear_forward(y, {&call, 1}, exec);
        return;
    }
    if (residual_) ops::carry_normed(*residual_, normed, x);
    const ops::LinearCall call{&out_, normed};
    ops::linear_forward(y, {&call, 1}, exec);
    if (!post_norm_.empty()) ops::rms_norm(normed, post_norm_, norm_eps_, normed, exec);
    if (residual_) return ops::add_branch(*residual_, normed, x);
    for (int64_t i = 0; i < x.shape[0]; ++i) ops::add(normed.row(i), x.row(i));
}

size_t Sublayer::workspace_bytes(int64_t n_rows) const {
    return ops::linear_workspace_bytes(n_rows, out_.n_in());
}

}  // namespace bifocal
