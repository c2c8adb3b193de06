#include "mixers/shared/qkv_projection.h"

#include <fmt/format.h>

#include <cmath>

#include "mixers/shared/weights.h"

namespace bifocal {

void QkvProjection::add_weights(std::vector<WeightSpec>& list, const LayerContext& context) {
    const int64_t M = context.d_model, D = context.head_dim;
    const int64_t q_heads = context.output_gate ? 2 * context.n_heads : context.n_heads;
    for (const auto& [name, heads] : {std::pair{"q", q_heads}, std::pair{"k", context.n_kv_heads},
                                      std::pair{"v", context.n_kv_heads}}) {
        const std::string full = fmt::format("self_attn.{}_proj", name);
        list.push_back({full + ".weight", {heads * D, M}});
        if (context.qkv_bias) list.push_back({full + ".bias", {heads * D}});
    }
}

Status QkvProjection::bind(const LayerContext& context, const WeightMap& weights) {
    const int64_t H = context.n_heads, D = context.head_dim;
    has_gate_ = context.output_gate;
    // Rows [begin, begin + D) of each head, or all rows.
    const auto bind_one = [&](ops::Linear& linear, const char* part, int64_t begin) -> Status {
        const std::string name = fmt::format("self_attn.{}_proj", part);
        const Tensor* weight = find_weight(weights, name + ".weight");
        const Tensor* bias = find_weight(weights, name + ".bias");
        Tensor own_weight, own_bias;
        if (begin >= 0) {
            own_weight = weight->rows_of_groups(H, begin, begin + D);
            weight = &own_weight;
            if (bias) own_bias = bias->rows_of_groups(H, begin, begin + D);
            if (bias) bias = &own_bias;
        }
        BIFOCAL_TRY(linear, ops::Linear::make(begin > 0 ? name + " (gate)" : name, *weight, bias,
                                              context.precision));
        return {};
    };
    BIFOCAL_TRY_STATUS(bind_one(q_, "q", has_gate_ ? 0 : -1));
    BIFOCAL_TRY_STATUS(bind_one(k_, "k", -1));
    BIFOCAL_TRY_STATUS(bind_one(v_, "v", -1));
    if (has_gate_) BIFOCAL_TRY_STATUS(bind_one(gate_, "q", D));
    return {};
}

size_t QkvProjection::row_bytes(const LayerContext& context, int64_t n_rows) {
    const auto bytes = [&](int64_t heads) {
        return align_up(static_cast<size_t>(n_rows * heads * context.head_dim) * sizeof(float));
    };
    const size_t q = bytes(context.n_heads);
    return q + 2 * bytes(context.n_kv_heads) + (context.output_gate ? q : 0);
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
    rows.gate = take(context.output_gate ? context.n_heads : 0);
    return rows;
}

size_t QkvProjection::add_calls(const QkvRows& rows, ops::LinearCall* calls) const {
    calls[0] = {&q_, rows.q};
    calls[1] = {&k_, rows.k};
    calls[2] = {&v_, rows.v};
    if (!has_gate_) return 3;
    calls[3] = {&gate_, rows.gate};
    return 4;
}

void QkvProjection::project(View<const float, 2> normed, const QkvRows& rows, Exec& exec) const {
    ops::LinearCall calls[4];
    const size_t n = add_calls(rows, calls);
    ops::linear_forward(normed, {calls, n}, exec);
}

size_t QkvProjection::workspace_bytes(const LayerContext& context, int64_t n_rows) {
    return ops::linear_workspace_bytes(n_rows, context.d_model);
}

View<float, 2> QkvProjection::finish(const QkvRows& rows, Exec& exec) const {
    apply_gate(rows, rows.q, exec);
    return rows.q;
}

void QkvProjection::apply_gate(const QkvRows& rows, View<float, 2> y, Exec& exec) const {
    if (!has_gate_) return;
    constexpr int64_t kWorthSharing = 1 << 12;  // numbers of one piece
    exec.pool.parallel_for(y.size(), kWorthSharing, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) y.data[i] /= 1 + std::exp(-rows.gate.data[i]);
    });
}

std::vector<std::string> QkvProjection::describe() const {
    std::vector<std::string> lines;
    for (const ops::Linear* linear : {&q_, &k_, &v_})
        lines.push_back(fmt::format("{}: {}", linear->name(), linear->kernel()));
    if (has_gate_) lines.push_back(fmt::format("{}: {}", gate_.name(), gate_.kernel()));
    return lines;
}

int64_t QkvProjection::weight_bytes() const {
    const int64_t bytes = q_.weight_bytes() + k_.weight_bytes() + v_.weight_bytes();
    return has_gate_ ? bytes + gate_.weight_bytes() : bytes;
}

}  // namespace bifocal
