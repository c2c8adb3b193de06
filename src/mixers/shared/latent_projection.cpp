#include "mixers/shared/latent_projection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/cpu_features.h"
#include "mixers/shared/weights.h"
#include "ops/kernels/kernels.h"
#include "ops/norm.h"

namespace bifocal {
namespace {

constexpr const char* kQuery = "self_attn.q_proj";
constexpr const char* kLatent = "self_attn.kv_a_proj_with_mqa";
constexpr const char* kLatentNorm = "self_attn.kv_a_layernorm.weight";
constexpr const char* kExpand = "self_attn.kv_b_proj.weight";

// Rows that one thread takes through a head's matrix together.
constexpr int64_t kRowBlock = 64;

}  // namespace

void LatentProjection::add_weights(std::vector<WeightSpec>& list, const LayerContext& context) {
    const LatentKeys& l = *context.latent;
    const int64_t M = context.d_model, H = context.n_heads;
    list.push_back({fmt::format("{}.weight", kQuery), {H * (l.own_dim + l.shared_dim), M}});
    list.push_back({fmt::format("{}.weight", kLatent), {l.width(), M}});
    list.push_back({kLatentNorm, {l.rank}});
    list.push_back({kExpand, {H * (l.own_dim + l.value_dim), l.rank}});
}

Status LatentProjection::bind(const LayerContext& context, const WeightMap& weights) {
    n_heads_ = context.n_heads;
    sizes_ = *context.latent;
    for (auto [linear, name] : {std::pair{&q_, kQuery}, std::pair{&latent_, kLatent}}) {
        BIFOCAL_TRY(*linear,
                    ops::Linear::make(name, *find_weight(weights, fmt::format("{}.weight", name)),
                                      nullptr, context.precision));
    }
    norm_ = float_weight(weights, kLatentNorm, context.norm_offset);
    const std::vector<float> all = float_weight(weights, kExpand, 0);
    const int64_t R = sizes_.rank, own = sizes_.own_dim, V = sizes_.value_dim;
    to_latent_.resize(static_cast<size_t>(n_heads_ * own * R));
    to_values_.resize(static_cast<size_t>(n_heads_ * R * V));
    for (int64_t h = 0; h < n_heads_; ++h) {
        const float* const keys = all.data() + h * (own + V) * R;
        std::copy_n(keys, own * R, to_latent_.data() + h * own * R);
        const float* const values = keys + own * R;
        for (int64_t v = 0; v < V; ++v)
            for (int64_t r = 0; r < R; ++r) to_values_[(h * R + r) * V + v] = values[v * R + r];
    }
    return {};
}

namespace {

struct Widths {
    int64_t queries, q, k, values;
};

Widths widths(const LayerContext& context) {
    const LatentKeys& l = *context.latent;
    const int64_t H = context.n_heads;
    return {H * (l.own_dim + l.shared_dim), H * l.width(), l.width(), H * l.value_dim};
}

}  // namespace

size_t LatentProjection::row_bytes(const LayerContext& context, int64_t n_rows) {
    const Widths w = widths(context);
    size_t bytes = 0;
    for (const int64_t width : {w.queries, w.q, w.k, w.values})
        bytes += float_bytes(n_rows * width);
    return bytes;
}

LatentRows LatentProjection::take_rows(const LayerContext& context, int64_t n_rows, Exec& exec) {
    const Widths w = widths(context);
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(n_rows * width).data(), {n_rows, width});
    };
    LatentRows rows;
    rows.queries = take(w.queries);
    rows.q = take(w.q);
    rows.k = take(w.k);
    rows.values = take(w.values);
    return rows;
}

size_t LatentProjection::workspace_bytes(const LayerContext& context, int64_t n_rows) {
    return ops::linear_workspace_bytes(n_rows, context.d_model);
}

namespace {

// f(head, first row, rows) for every head and block of rows.
template <class F>
void for_head_blocks(int64_t n_heads, int64_t n_rows, Exec& exec, F f) {
    const int64_t blocks = (n_rows + kRowBlock - 1) / kRowBlock;
    exec.pool.parallel_for(n_heads * blocks, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % blocks * kRowBlock;
            f(i / blocks, first, std::min(kRowBlock, n_rows - first));
        }
    });
}

}  // namespace

void LatentProjection::project(View<const float, 2> normed, const LatentRows& rows,
                               Exec& exec) const {
    const int64_t R = sizes_.rank, own = sizes_.own_dim, P = sizes_.shared_dim;
    const int64_t N = normed.shape[0], D = own + P, wide = R + P;
    const ops::LinearCall calls[] = {{&q_, rows.queries}, {&latent_, rows.k}};
    ops::linear_forward(normed, calls, exec);
    for (int64_t t = 0; t < N; ++t) {
        const std::span<float> row = rows.k.row(t).first(static_cast<size_t>(R));
        ops::rms_norm_row(row, norm_, sizes_.norm_eps, row);
    }
    for_head_blocks(n_heads_, N, exec, [&](int64_t h, int64_t first, int64_t n) {
        const float* const from = rows.queries.row(first).data() + h * D;
        float* const to = rows.q.row(first).data() + h * wide;
        ops::kernels().small_product({n, R, own, from, n_heads_ * D, 1,
                                      to_latent_.data() + h * own * R, R, to, n_heads_ * wide,
                                      false});
        for (int64_t t = 0; t < n; ++t)
            std::copy_n(from + t * n_heads_ * D + own, P, to + t * n_heads_ * wide + R);
    });
}

View<float, 2> LatentProjection::finish(const LatentRows& rows, Exec& exec) const {
    const int64_t R = sizes_.rank, V = sizes_.value_dim, wide = sizes_.width();
    for_head_blocks(n_heads_, rows.q.shape[0], exec, [&](int64_t h, int64_t first, int64_t n) {
        ops::kernels().small_product({n, V, R, rows.q.row(first).data() + h * wide, n_heads_ * wide,
                                      1, to_values_.data() + h * R * V, V,
                                      rows.values.row(first).data() + h * V, n_heads_ * V, false});
    });
    return rows.values;
}

std::vector<std::string> LatentProjection::describe() const {
    std::vector<std::string> lines;
    for (const ops::Linear* linear : {&q_, &latent_})
        lines.push_back(fmt::format("{}: {}", linear->name(), linear->kernel()));
    lines.push_back(fmt::format("self_attn.kv_b_proj: {} f32, absorbed into queries and results",
                                isa_name(active_isa())));
    return lines;
}

int64_t LatentProjection::weight_bytes() const {
    const size_t absorbed = (to_latent_.size() + to_values_.size()) * sizeof(float);
    return q_.weight_bytes() + latent_.weight_bytes() + static_cast<int64_t>(absorbed);
}

}  // namespace bifocal
