#include "ops/ffn.h"

#include <algorithm>

#include "core/check.h"
#include "ops/kernels/kernels.h"
#include "ops/norm.h"

namespace bifocal::ops {

void gated_activation(Activation activation, std::span<float> a, std::span<const float> b) {
    BIFOCAL_CHECK(a.size() == b.size(), "gate of {}, up of {} elements", a.size(), b.size());
    const auto n = static_cast<int64_t>(a.size());
    switch (activation) {
        case Activation::silu:
            return kernels().silu_mul(a.data(), b.data(), n);
        case Activation::gelu_tanh:
            return kernels().gelu_tanh_mul(a.data(), b.data(), n);
    }
}

void FeedForward::forward(View<float, 2> x, Exec& exec) const {
    const int64_t n_rows = x.shape[0];
    const int64_t d_model = gate.n_in();
    const int64_t d_ff = gate.n_out();
    check_shape("x", x.shape, {n_rows, d_model});
    if (n_rows == 0) return;

    Workspace::Frame frame(exec.workspace);
    const View<float, 2> normed(exec.workspace.take<float>(n_rows * d_model).data(),
                                {n_rows, d_model});
    const View<float, 2> gated(exec.workspace.take<float>(n_rows * d_ff).data(), {n_rows, d_ff});
    const View<float, 2> raised(exec.workspace.take<float>(n_rows * d_ff).data(), {n_rows, d_ff});

    rms_norm(x, norm, norm_eps, normed, exec);
    const LinearCall in[] = {{&gate, gated}, {&up, raised}};
    linear_forward(normed, in, exec);

    const int64_t grain = std::max<int64_t>(1, 4096 / d_ff);
    exec.pool.parallel_for(n_rows, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
            gated_activation(activation, gated.row(t), raised.row(t));
        }
    });

    if (!post_norm) {
        const LinearCall out[] = {{&down, x, true}};
        linear_forward(gated, out, exec);
        return;
    }
    const LinearCall out[] = {{&down, normed}};
    linear_forward(gated, out, exec);
    rms_norm(normed, *post_norm, norm_eps, normed, exec);
    for (int64_t t = 0; t < n_rows; ++t) {
        kernels().add(normed.row(t).data(), x.row(t).data(), d_model);
    }
}

size_t FeedForward::workspace_bytes(int64_t n_rows) const {
    const auto floats = [](int64_t n) { return align_up(static_cast<size_t>(n) * sizeof(float)); };
    return floats(n_rows * gate.n_in()) + 2 * floats(n_rows * gate.n_out()) +
           std::max(linear_workspace_bytes(n_rows, gate.n_in()),
                    linear_workspace_bytes(n_rows, gate.n_out()));
}

}  // namespace bifocal::ops
