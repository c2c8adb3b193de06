#include "mixers/linear/recurrence_parts.h"
#include "ops/vector.h"

namespace bifocal::linear {

void run_recurrent(const Recurrence& rec, const Tokens<float>& x, const State<float>& state,
                   std::span<float> scratch) {
    const int64_t K = rec.key_dim, V = rec.value_dim;
    Scratch memory(scratch);
    float* const decay = memory.take(K);
    float* const written = memory.take(V);
    float* const key = memory.take(K);
    for (int64_t t = 0; t < x.n; ++t) {
        const float* const k = x.k + t * x.k_row;
        const float* const v = x.v + t * x.v_row;
        const float* const g = x.g + t * x.g_row;
        const float* const q = x.q + t * x.q_row;
        float* const y = x.y + t * x.y_row;
        float w = write_strength(rec, x, t);
        float m = 0;
        int64_t decay_step = 0;
        if (rec.decays_by_channel) {
            decay_step = 1;
            for (int64_t c = 0; c < K; ++c) decay[c] = std::exp(g[c]);
        } else if (rec.has_stabiliser()) {  // eq. (5)
            const float before = *state.m;
            m = std::max(g[0] + before, w);
            // Where they are close, the difference is exact; g + before would lose digits to m.
            decay[0] = std::exp(g[0] + (before - m));
            w = std::exp(w - m);
            *state.m = m;
        } else {
            decay[0] = std::exp(g[0]);
        }
        if (rec.has_bonus) {
            multiply({rec.n_queries, V, K, q, K, 1, state.s, V, y, V, false});
            for (int64_t i = 0; i < rec.n_queries; ++i) {
                float weight = 0;
                for (int64_t c = 0; c < K; ++c) weight += q[i * K + c] * x.bonus[c] * k[c];
                ops::axpy(weight, v, {y + i * V, static_cast<size_t>(V)});
            }
        }
        if (rec.write == Write::delta) {
            for (int64_t c = 0; c < K; ++c) key[c] = decay[c * decay_step] * k[c];
            multiply({1, V, K, key, K, 1, state.s, V, written, V, false});
            for (int64_t j = 0; j < V; ++j) written[j] = w * (v[j] - written[j]);
        } else {
            for (int64_t j = 0; j < V; ++j) written[j] = w * v[j];
        }
        ops::kernels().state_step({K, V, rec.has_bonus ? 0 : rec.n_queries, state.s, decay,
                                   decay_step, k, written, q, K, y, V});
        if (state.n) {
            for (int64_t c = 0; c < K; ++c)
                state.n[c] = decay[c * decay_step] * state.n[c] + w * k[c];
        }
        for (int64_t i = 0; i < rec.n_queries; ++i) {
            float by = rec.scale;
            if (state.n) {
                const std::span<const float> query(q + i * K, static_cast<size_t>(K));
                by /= divisor(rec, x, t, i, rec.scale * ops::dot(query, state.n), m);
            }
            if (by != 1) ops::scale(by, {y + i * V, static_cast<size_t>(V)});
        }
    }
}

}  // namespace bifocal::linear
