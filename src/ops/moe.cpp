#include "ops/moe.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "ops/vector.h"

namespace bifocal::ops {

namespace {

// Experts whose gate and up one call of linear_forward takes.
constexpr int64_t kExpertsPerCall = 8;

size_t int_bytes(int64_t n) {
    return align_up(static_cast<size_t>(n) * sizeof(int32_t));
}

View<float, 2> take_rows(int64_t n_rows, int64_t width, Exec& exec) {
    return {exec.workspace.take<float>(n_rows * width).data(), {n_rows, width}};
}

// The first rows of scratch that is as large as any expert needs it.
View<float, 2> part(View<float, 2> scratch, int64_t n_rows, int64_t width) {
    return {scratch.data, {n_rows, width}};
}

// Which token goes where.
struct Routing {
    View<int32_t, 2> chosen;     // [N, K] experts
    View<float, 2> weights;      // [N, K]
    std::span<int32_t> first;    // [E + 1] where an expert's tokens begin in `members`
    std::span<int32_t> members;  // [N · K] places in [N, K], by expert, in the order of tokens

    std::span<const int32_t> of_expert(int64_t e) const {
        return members.subspan(first[e], first[e + 1] - first[e]);
    }
};

Routing route(const Experts& moe, View<const float, 2> x, Exec& exec) {
    const int64_t N = x.shape[0], E = moe.router.n_out(), K = moe.n_used;
    Routing routing;
    routing.chosen = {exec.workspace.take<int32_t>(N * K).data(), {N, K}};
    routing.weights = take_rows(N, K, exec);
    routing.first = exec.workspace.take<int32_t>(E + 1);
    routing.members = exec.workspace.take<int32_t>(N * K);
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> logits = take_rows(N, E, exec), ranks = take_rows(N, E, exec);
    const LinearCall call{&moe.router, logits};
    linear_forward(x, {&call, 1}, exec);
    exec.pool.parallel_for(N, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t)
            choose_experts(moe.gating, logits.row(t), moe.correction, ranks.row(t),
                           routing.chosen.row(t), routing.weights.row(t));
    });

    std::ranges::fill(routing.first, 0);
    const std::span<const int32_t> chosen(routing.chosen.data, static_cast<size_t>(N * K));
    for (const int32_t e : chosen) ++routing.first[e + 1];
    for (int64_t e = 0; e < E; ++e) routing.first[e + 1] += routing.first[e];
    // Each expert's beginning moves up to its end, which is the next one's beginning: undone below.
    for (size_t i = 0; i < chosen.size(); ++i)
        routing.members[routing.first[chosen[i]]++] = static_cast<int32_t>(i);
    for (int64_t e = E; e > 0; --e) routing.first[e] = routing.first[e - 1];
    routing.first[0] = 0;
    return routing;
}

// What experts are run in, [N, M] or [max(N, K), F] at most.
struct Scratch {
    View<float, 2> in, gated, raised, out;
};

void run_expert(const Expert& expert, Activation activation, View<const float, 2> x,
                const Scratch& scratch, View<float, 2> y, Exec& exec) {
    const int64_t n = x.shape[0], F = expert.gate.n_out();
    const View<float, 2> gated = part(scratch.gated, n, F), raised = part(scratch.raised, n, F);
    const LinearCall in[] = {{&expert.gate, gated}, {&expert.up, raised}};
    linear_forward(x, in, exec);
    gated_activation(activation, gated, raised, exec);
    const LinearCall out{&expert.down, y};
    linear_forward(gated, {&out, 1}, exec);
}

// The experts of one token side by side: they read the same x.
void run_single(const Experts& moe, const Routing& routing, View<const float, 2> x,
                const Scratch& scratch, View<float, 2> y, Exec& exec) {
    const int64_t K = moe.n_used, M = x.shape[1], F = moe.experts[0].gate.n_out();
    const View<float, 2> gated = part(scratch.gated, K, F), raised = part(scratch.raised, K, F);
    const auto row = [&](View<float, 2> rows, int64_t k) {
        return View<float, 2>(rows.data + k * F, {1, F});
    };
    for (int64_t begin = 0; begin < K; begin += kExpertsPerCall) {
        LinearCall calls[2 * kExpertsPerCall];
        size_t n = 0;
        for (int64_t k = begin; k < std::min(K, begin + kExpertsPerCall); ++k) {
            const Expert& expert = moe.experts[routing.chosen(0, k)];
            calls[n++] = {&expert.gate, row(gated, k)};
            calls[n++] = {&expert.up, row(raised, k)};
        }
        linear_forward(x, {calls, n}, exec);
    }
    gated_activation(moe.activation, gated, raised, exec);
    const View<float, 2> out = part(scratch.out, 1, M);
    for (int64_t k = 0; k < K; ++k) {
        const LinearCall call{&moe.experts[routing.chosen(0, k)].down, out};
        linear_forward(row(gated, k), {&call, 1}, exec);
        axpy(routing.weights(0, k), out.data, y.row(0));
    }
}

// One expert after the other, each with all its tokens.
void run_grouped(const Experts& moe, const Routing& routing, View<const float, 2> x,
                 const Scratch& scratch, View<float, 2> y, Exec& exec) {
    const int64_t K = moe.n_used, M = x.shape[1];
    for (int64_t e = 0; e < static_cast<int64_t>(moe.experts.size()); ++e) {
        const std::span<const int32_t> members = routing.of_expert(e);
        const auto n = static_cast<int64_t>(members.size());
        if (n == 0) continue;
        const View<float, 2> in = part(scratch.in, n, M), out = part(scratch.out, n, M);
        exec.pool.parallel_for(n, 8, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                std::ranges::copy(x.row(members[i] / K), in.row(i).begin());
        });
        run_expert(moe.experts[e], moe.activation, in, scratch, out, exec);
        exec.pool.parallel_for(n, 8, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                axpy(routing.weights.data[members[i]], out.row(i).data(), y.row(members[i] / K));
        });
    }
}

void run_shared(const Experts& moe, View<const float, 2> x, const Scratch& scratch,
                View<float, 2> y, Exec& exec) {
    const int64_t N = x.shape[0];
    run_expert(moe.shared->expert, moe.activation, x, scratch, scratch.out, exec);
    if (!moe.shared->gate) {
        for (int64_t t = 0; t < N; ++t) axpy(1, scratch.out.row(t).data(), y.row(t));
        return;
    }
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> open = take_rows(N, 1, exec);
    const LinearCall call{&*moe.shared->gate, open};
    linear_forward(x, {&call, 1}, exec);
    for (int64_t t = 0; t < N; ++t)
        axpy(1 / (1 + std::exp(-open(t, 0))), scratch.out.row(t).data(), y.row(t));
}

// The widest of all.
int64_t widest(const Experts& moe) {
    const int64_t F = moe.experts[0].gate.n_out();
    return moe.shared ? std::max(F, moe.shared->expert.gate.n_out()) : F;
}

}  // namespace

void Experts::forward(View<const float, 2> x, View<float, 2> y, Exec& exec) const {
    const int64_t N = x.shape[0], M = router.n_in();
    check_shape("x", x.shape, {N, M});
    check_shape("y", y.shape, {N, M});
    if (N == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const Routing routing = route(*this, x, exec);
    const int64_t rows = std::max(N, n_used), F = widest(*this);
    const Scratch scratch{take_rows(N, M, exec), take_rows(rows, F, exec), take_rows(rows, F, exec),
                          take_rows(N, M, exec)};
    if (N == 1) {
        run_single(*this, routing, x, scratch, y, exec);
    } else {
        run_grouped(*this, routing, x, scratch, y, exec);
    }
    if (shared) run_shared(*this, x, scratch, y, exec);
}

size_t Experts::workspace_bytes(int64_t n_rows) const {
    const int64_t M = router.n_in(), E = router.n_out(), F = widest(*this);
    const size_t routing =
        2 * int_bytes(n_rows * n_used) + float_bytes(n_rows * n_used) + int_bytes(E + 1);
    const size_t product =
        std::max(linear_workspace_bytes(n_rows, M), linear_workspace_bytes(n_rows, F));
    const size_t scratch = 2 * float_bytes(n_rows * M) +
                           2 * float_bytes(std::max(n_rows, n_used) * F) + float_bytes(n_rows);
    return routing + std::max(2 * float_bytes(n_rows * E), scratch) + product;
}

int64_t Experts::weight_bytes() const {
    const auto bytes = [](const Expert& expert) {
        return expert.gate.weight_bytes() + expert.up.weight_bytes() + expert.down.weight_bytes();
    };
    int64_t total = router.weight_bytes() + n_used * bytes(experts[0]);
    if (shared) total += bytes(shared->expert);
    if (shared && shared->gate) total += shared->gate->weight_bytes();
    return total;
}

}  // namespace bifocal::ops
