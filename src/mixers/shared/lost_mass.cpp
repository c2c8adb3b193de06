#include "mixers/shared/lost_mass.h"

#include <cmath>

#include "core/check.h"
#include "mixers/shared/latent_projection.h"
#include "mixers/shared/ring_attention.h"
#include "mixers/shared/weights.h"
#include "ops/kernels/kernels.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/vector.h"

namespace bifocal {
namespace {

constexpr int64_t kRows = 16;  // queries that go through the keys together

// Rows [T, n_heads · D] of a projection, normed and rotated as in attention.
struct Heads {
    int64_t n_heads, D;
    std::vector<float> values;
    float* row(int64_t t) { return values.data() + t * n_heads * D; }
};

Result<Heads> project(const LayerContext& context, const WeightMap& weights,
                      View<const float, 2> normed, const std::string& which, int64_t n_heads,
                      const std::optional<ops::RopeTable>& rope, Exec& exec) {
    const int64_t T = normed.shape[0], D = context.head_dim;
    const std::string name = "self_attn." + which + "_proj";
    BIFOCAL_TRY(const ops::Linear linear,
                ops::Linear::make(name, *find_weight(weights, name + ".weight"),
                                  find_weight(weights, name + ".bias"), context.precision));
    Heads heads{n_heads, D, std::vector<float>(static_cast<size_t>(T * n_heads * D))};
    const ops::LinearCall call{&linear, View<float, 2>(heads.values.data(), {T, n_heads * D})};
    ops::linear_forward(normed, {&call, 1}, exec);
    const std::vector<float> norm =
        float_weight(weights, "self_attn." + which + "_norm.weight", context.norm_offset);
    exec.pool.parallel_for(T, 16, [&](int64_t begin, int64_t end, int) {
        float angles[2 * kMaxHeadDim];
        const int64_t half = rope ? rope->rotary_dim / 2 : 0;
        const std::span<float> cos(angles, static_cast<size_t>(half));
        const std::span<float> sin(angles + half, static_cast<size_t>(half));
        for (int64_t t = begin; t < end; ++t) {
            if (rope) ops::rope_cos_sin(*rope, t, cos, sin);
            for (int64_t h = 0; h < n_heads; ++h) {
                const std::span<float> head(heads.row(t) + h * D, static_cast<size_t>(D));
                if (!norm.empty()) ops::rms_norm_row(head, norm, context.norm_eps, head);
                if (rope) ops::rope_rotate(*rope, cos, sin, head);
            }
        }
    });
    return heads;
}

struct QueriesAndKeys {
    Heads q, k;
};

// All heads against the latent rows, as the ring has them.
Result<QueriesAndKeys> project_latent(const LayerContext& context, const WeightMap& weights,
                                      View<const float, 2> normed, ThreadPool& pool) {
    const int64_t T = normed.shape[0], width = context.latent->width();
    LatentProjection projection;
    BIFOCAL_TRY_STATUS(projection.bind(context, weights));
    Workspace workspace(LatentProjection::row_bytes(context, T) +
                        LatentProjection::workspace_bytes(context, T));
    Exec exec{pool, workspace};
    const LatentRows rows = LatentProjection::take_rows(context, T, exec);
    projection.project(normed, rows, exec);
    const auto copied = [&](View<float, 2> from, int64_t n_heads) {
        return Heads{n_heads, width, std::vector<float>(from.data, from.data + from.size())};
    };
    return QueriesAndKeys{copied(rows.q, context.n_heads), copied(rows.k, 1)};
}

Result<QueriesAndKeys> project_both(const LayerContext& context, const WeightMap& weights,
                                    View<const float, 2> normed, Exec& exec) {
    if (context.latent) return project_latent(context, weights, normed, exec.pool);
    std::optional<ops::RopeTable> rope;
    if (context.rope) {
        BIFOCAL_TRY(rope, ops::make_rope_table(*context.rope));
    }
    QueriesAndKeys both;
    BIFOCAL_TRY(both.q, project(context, weights, normed, "q", context.n_heads, rope, exec));
    BIFOCAL_TRY(both.k, project(context, weights, normed, "k", context.n_kv_heads, rope, exec));
    return both;
}

}  // namespace

Result<std::vector<float>> lost_mass(const LayerContext& context, const WeightMap& weights,
                                     View<const float, 2> x, int64_t window, int64_t sink_tokens,
                                     int64_t n_first, ThreadPool& pool) {
    const int64_t T = x.shape[0], M = context.d_model, H = context.n_heads;
    const int64_t first = window + sink_tokens;  // the first query that has lost a token
    BIFOCAL_CHECK(T > first, "{} tokens, window {}, {} sink tokens", T, window, sink_tokens);
    Workspace workspace(ops::linear_workspace_bytes(T, M));
    Exec exec{pool, workspace};
    std::vector<float> normed_values(static_cast<size_t>(T * M));
    const View<float, 2> normed(normed_values.data(), {T, M});
    ops::rms_norm(x, float_weight(weights, "input_layernorm.weight", context.norm_offset),
                  context.norm_eps, normed, exec);
    BIFOCAL_TRY(QueriesAndKeys both, project_both(context, weights, normed, exec));
    Heads &q = both.q, &k = both.k;
    const int64_t D = q.D, G = k.n_heads;

    std::vector<float> mass(static_cast<size_t>(H));
    pool.parallel_for(H, 1, [&](int64_t begin, int64_t end, int) {
        // That some query has lost.
        const int64_t n_keys = std::min(T - window - sink_tokens, n_first);
        std::vector<float> keys_t(static_cast<size_t>(D * n_keys));
        std::vector<float> scores(static_cast<size_t>(kRows * n_keys));
        for (int64_t h = begin; h < end; ++h) {
            for (int64_t j = 0; j < n_keys; ++j) {
                const float* const key = k.row(sink_tokens + j) + h / (H / G) * D;
                for (int64_t d = 0; d < D; ++d) keys_t[d * n_keys + j] = context.scale * key[d];
            }
            double sum = 0;
            for (int64_t t = first; t < T; t += kRows) {
                const int64_t n = std::min(kRows, T - t);
                // Keys that the last of these has lost.
                const int64_t seen = std::min(t + n - first, n_keys);
                ops::kernels().small_product({n, seen, D, q.row(t) + h * D, H * D, 1, keys_t.data(),
                                              n_keys, scores.data(), n_keys, false});
                for (int64_t r = 0; r < n; ++r) {
                    const std::span<float> lost(
                        scores.data() + r * n_keys,
                        static_cast<size_t>(std::min(t + r - first + 1, n_keys)));
                    const float top = ops::max(lost);
                    sum += static_cast<double>(top) +
                           std::log(static_cast<double>(ops::exp_sum(lost, top)));
                }
            }
            mass[h] = static_cast<float>(sum / static_cast<double>(T - first));
        }
    });
    return mass;
}

}  // namespace bifocal
