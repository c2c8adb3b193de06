#include "mixers/shared/qkv_projection.h"

#include <fmt/format.h>

#include "mixers/shared/weights.h"

namespace bifocal {

void QkvProjection::add_weights(std::vector<WeightSpec>& list, const LayerContext& context) {
    const int64_t M = context.d_model, D = context.head_dim;
    for (const auto& [name, heads] :
         {std::pair{"q", context.n_heads}, std::pair{"k", context.n_kv_heads},
          std::pair{"v", context.n_kv_heads}}) {
        const std::string full = fmt::format("self_attn.{}_proj", name);
        list.push_back({full + ".weight", {heads * D, M}});
        if (context.qkv_bias) list.push_back({full + ".bias", {heads * D}});
    }
}

Status QkvProjection::bind(const LayerContext& context, const WeightMap& weights) {
    for (auto [linear, name] : {std::pair{&q_, "q"}, std::pair{&k_, "k"}, std::pair{&v_, "v"}}) {
        const std::string full = fmt::format("self_attn.{}_proj", name);
        BIFOCAL_TRY(*linear,
                    ops::Linear::make(full, *find_weight(weights, full + ".weight"),
                                      find_weight(weights, full + ".bias"), context.precision));
    }
    return {};
}

size_t QkvProjection::row_bytes(const LayerContext& context, int64_t n_rows) {
    const auto bytes = [&](int64_t heads) {
        return align_up(static_cast<size_t>(n_rows * heads * context.head_dim) * sizeof(float));
    };
    return bytes(context.n_heads) + 2 * bytes(context.n_kv_heads);
}

QkvRows QkvProjection::take_rows(const LayerContext& context, int64_t n_rows, Exec& exec) {
    const auto take = [&](int64_t heads) {
        const int64_t width = heads * context.head_dim;
        return View<float, 2>(exec.workspace.take<float>(n_rows * width).data(), {n_rows, width});
    };
    QkvRows rows;
    rows.q = take(context.n_heads);
    rows.k = take(context.n_kv_heads);
    rows.v = take(context.n_kv_heads);
    return rows;
}

void QkvProjection::add_calls(const QkvRows& rows, ops::LinearCall* calls) const {
    calls[0] = {&q_, rows.q};
    calls[1] = {&k_, rows.k};
    calls[2] = {&v_, rows.v};
}

std::vector<std::string> QkvProjection::describe() const {
    std::vector<std::string> lines;
    for (const ops::Linear* linear : {&q_, &k_, &v_})
        lines.push_back(fmt::format("{}: {}", linear->name(), linear->kernel()));
    return lines;
}

int64_t QkvProjection::weight_bytes() const {
    return q_.weight_bytes() + k_.weight_bytes() + v_.weight_bytes();
}

}  // namespace bifocal
