#include "ops/ffn.h"

#include <algorithm>

#include "core/check.h"
#include "ops/norm.h"
#include "ops/vector.h"

namespace bifocal::ops {

void FeedForward::transform(View<const float, 2> normed, View<float, 2> y, bool accumulate,
                            Exec& exec) const {
    const int64_t n_rows = normed.shape[0];
    if (experts) {
        if (!accumulate) std::fill_n(y.data, y.size(), 0.0f);
        return experts->forward(normed, y, exec);
    }
    const int64_t d_ff = gate.n_out();
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> gated(exec.workspace.take<float>(n_rows * d_ff).data(), {n_rows, d_ff});
    const View<float, 2> raised(exec.workspace.take<float>(n_rows * d_ff).data(), {n_rows, d_ff});
    const LinearCall in[] = {{&gate, gated}, {&up, raised}};
    linear_forward(normed, in, exec);
    gated_activation(activation, gated, raised, exec);
    const LinearCall out{&down, y, accumulate};
    linear_forward(gated, {&out, 1}, exec);
}

void FeedForward::forward(View<float, 2> x, Exec& exec) const {
    const auto d_model = static_cast<int64_t>(norm.size());
    const int64_t n_rows = x.shape[0];
    check_shape("x", x.shape, {n_rows, d_model});
    if (n_rows == 0) return;

    const Workspace::Frame frame(exec.workspace);
    const auto take = [&] {
        return View<float, 2>(exec.workspace.take<float>(n_rows * d_model).data(),
                              {n_rows, d_model});
    };
    const View<float, 2> normed = take();
    rms_norm(x, norm, norm_eps, normed, exec);
    if (!post_norm && !residual) return transform(normed, x, /*accumulate=*/true, exec);

    const View<float, 2> result = take();
    transform(normed, result, /*accumulate=*/false, exec);
    if (post_norm) rms_norm(result, *post_norm, norm_eps, result, exec);
    if (residual) {
        carry_normed(*residual, normed, x);
        add_branch(*residual, result, x);
    } else {
        for (int64_t t = 0; t < n_rows; ++t) add(result.row(t), x.row(t));
    }
}

size_t FeedForward::workspace_bytes(int64_t n_rows) const {
    const auto d_model = static_cast<int64_t>(norm.size());
    const auto floats = [](int64_t n) { return align_up(static_cast<size_t>(n) * sizeof(float)); };
    const size_t rows = (post_norm || residual ? 2 : 1) * floats(n_rows * d_model);
    if (experts) return rows + experts->workspace_bytes(n_rows);
    return rows + 2 * floats(n_rows * gate.n_out()) +
           std::max(linear_workspace_bytes(n_rows, d_model),
                    linear_workspace_bytes(n_rows, gate.n_out()));
}

}  // namespace bifocal::ops
