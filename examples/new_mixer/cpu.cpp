// NAME_ on the CPU: one pass over the tokens, the mean updated in place.
#include <algorithm>

#include "core/check.h"
#include "mixers/NAME_/NAME_.h"
#include "ops/norm.h"

namespace bifocal {

size_t Name_Mixer::workspace_bytes(const StateLayout&, int64_t batch, int64_t n_tokens, int) const {
    const LayerContext& c = context_;
    const int64_t N = batch * n_tokens, M = c.d_model;
    const int64_t HD = c.n_heads * c.head_dim, GD = c.n_kv_heads * c.head_dim;
    const auto floats = [](int64_t n) { return align_up(static_cast<size_t>(n) * sizeof(float)); };
    return floats(N * M) + floats(N * GD) + floats(N * HD) +
           std::max(ops::linear_workspace_bytes(N, M), ops::linear_workspace_bytes(N, HD));
}

void Name_Mixer::forward(const Chunk& chunk, Exec& exec) const {
    const LayerContext& c = context_;
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = c.d_model, D = c.head_dim;
    const int64_t H = c.n_heads, G = c.n_kv_heads, group = H / G;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (B * T == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(B * T * width).data(), {B * T, width});
    };
    const View<float, 2> x(chunk.x.data, {B * T, M});
    const View<float, 2> normed = take(M), v = take(G * D), heads = take(H * D);

    ops::rms_norm(x, norm_, c.norm_eps, normed, exec);  // eq. (1)
    const ops::LinearCall in{&v_, v};
    ops::linear_forward(normed, {&in, 1}, exec);  // eq. (2)

    const auto decay = static_cast<float>(config_.decay);
    const size_t offset = chunk.layout.field("mean").offset;
    exec.pool.parallel_for(B * G, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / G, g = i % G;
            float* mean = reinterpret_cast<float*>(chunk.states[b] + offset) + g * D;  // [D]
            for (int64_t t = b * T; t < (b + 1) * T; ++t) {
                for (int64_t d = 0; d < D; ++d) {
                    mean[d] = decay * mean[d] + (1 - decay) * v(t, g * D + d);  // eq. (3)
                }
                for (int64_t r = 0; r < group; ++r) {
                    std::copy_n(mean, D, &heads(t, (g * group + r) * D));
                }
            }
        }
    });

    const ops::LinearCall out{&out_, x, /*accumulate=*/true};
    ops::linear_forward(heads, {&out, 1}, exec);  // eq. (4)
}

}  // namespace bifocal
