// The backward of a BranchTraining, from its output to what it was made from; README.md,
// "Backward".
#include <numbers>

#include "mixers/linear/training/branch_parts.h"
#include "mixers/linear/training/steps_backward.h"
#include "mixers/shared/training/rows.h"

namespace bifocal::linear {

using training::Run;

template <class R>
void BranchTraining::finish_back(const Run<R>& run, const Params<R>& p, const Rows<R>& rows) const {
    const LinearConfig& c = config_;
    const int64_t out = c.n_out_heads() * c.value_dim();
    R* const to[] = {
        c.has_skip ? run.grad(c.prefix + "D") : nullptr,
        c.output_norm == OutputNorm::none ? nullptr
                                          : run.grad(c.prefix + c.output_norm_name + ".weight"),
        p.norm_bias.empty() ? nullptr : run.grad(c.prefix + c.output_norm_name + ".bias")};
    run.sum_over_tokens(
        rows.B * rows.T, 3 * out,
        [&](int64_t i, R* sums, int thread) {
            finish_backward<R>(c, norm_only_, p, rows.v_head.row(i).data(), rows.gate.row(i).data(),
                               rows.recurred.row(i).data(), rows.dy.row(i).data(),
                               {rows.dgate.row(i).data(), sums, sums + out, sums + 2 * out,
                                rows.scratch + thread * rows.scratch_each});
        },
        [&](int64_t j, R sum) {
            // Sums beyond a weight's size are 0 and belong to none.
            if (R* const gradient = to[j / out]; gradient != nullptr && sum != 0)
                gradient[j % out] += sum;
        });
}

template <class R>
void BranchTraining::recur_back(const Run<R>& run, const Params<R>& p, const Rows<R>& rows) const {
    const LinearConfig& c = config_;
    const int64_t S = c.n_states, Q = c.recurrence.n_queries, K = c.key_dim(), V = c.value_dim();
    run.pool.parallel_for(rows.B * S, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t b = unit / S, s = unit % S, i = b * rows.T;
            TokenGrads<R> to;
            to.dy = rows.dy.row(i).data() + s * Q * V, to.dy_row = rows.dy.shape[1];
            to.dq = rows.dq_states.row(i).data() + s * Q * K, to.dq_row = S * Q * K;
            to.dk = rows.dk_states.row(i).data() + s * K, to.dk_row = S * K;
            to.dv = rows.dv_states.row(i).data() + s * V, to.dv_row = S * V;
            to.dg = rows.dg.row(i).data() + s * channels(), to.dg_row = S * channels();
            if (c.strength != Strength::one) to.dw = rows.dw.row(i).data() + s, to.dw_row = S;
            training_backward<R>(c.recurrence, tokens(rows, p, b, s), state_at(rows.before, b, s),
                                 to, state_at(rows.dstates, b, s), run.maths,
                                 {rows.scratch + thread * rows.scratch_each,
                                  static_cast<size_t>(rows.scratch_each)});
        }
    });
}

template <class R>
void BranchTraining::gates_back(const Run<R>& run, const Params<R>& p, const Rows<R>& rows) const {
    const LinearConfig& c = config_;
    const bool has_rate = c.decay == Decay::softplus_rate || c.decay == Decay::bounded_rate;
    R* const drate = has_rate ? run.grad(c.prefix + "A_log") : nullptr;
    R* const ddt_bias = has_rate ? run.grad(c.prefix + "dt_bias") : nullptr;
    const View<R, 2> from = c.conv_width > 0 ? rows.k_conv : rows.k;
    const int64_t width = channels();
    run.pool.parallel_for(c.n_states, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t s = begin; s < end; ++s) {
            // Sums of a frozen parameter go nowhere.
            R* const nowhere = rows.scratch + thread * rows.scratch_each;
            std::fill_n(nowhere, width + 1, R(0));
            for (int64_t i = 0; i < rows.B * rows.T; ++i) {
                const R* const decay =
                    c.decays_from_keys ? from.row(i).data() + c.head_of_state(s, c.n_key) * width
                                       : rows.decay.row(i).data() + s * width;
                gates_backward<R>(
                    c, p, s, decay, rows.strength.row(i).data() + s,
                    rows.dg.row(i).data() + s * width, rows.dw.row(i).data() + s,
                    {rows.ddecay.row(i).data() + s * width, rows.dstrength.row(i).data() + s,
                     drate ? drate + s : nowhere + width,
                     ddt_bias ? ddt_bias + s * width : nowhere});
            }
        }
    });
}

// Threads over heads: a head owns its rows, its map and its sums.
template <class R>
void BranchTraining::heads_back(const Run<R>& run, const Params<R>& p, const Rows<R>& rows) const {
    const LinearConfig& c = config_;
    const int64_t S = c.n_states, Q = c.recurrence.n_queries, D = c.head_dim, K = c.key_dim();
    const int64_t V = c.value_dim(), N = rows.B * rows.T, H = c.n_out_heads();
    const bool has_map = c.feature_map == FeatureMap::learned_softmax;
    const bool has_cosines = c.feature_map == FeatureMap::dct_softmax;
    R* const dmaps[] = {has_map ? run.grad(c.prefix + "feature_map.q.weight") : nullptr,
                        has_map ? run.grad(c.prefix + "feature_map.k.weight") : nullptr};
    // Query or key head h of the layer.
    const auto head_back = [&](int64_t h, bool is_query, R* scratch, R* sums) {
        const View<R, 2> raw = is_query ? (c.conv_width > 0 ? rows.q_conv : rows.q)
                                        : (c.conv_width > 0 ? rows.k_conv : rows.k);
        const View<R, 2> ready = is_query ? rows.q_head : rows.k_head;
        const View<R, 2> to = is_query ? rows.dq_conv : rows.dk_conv;
        const HugeVector<R>& map = is_query ? p.q_map : p.k_map;
        const std::vector<R>& norm = is_query ? p.q_norm : p.k_norm;
        R* const dmap = dmaps[is_query ? 0 : 1];
        const int64_t heads = is_query ? c.n_query : c.n_key;
        const int64_t features = is_query ? c.n_query : c.n_key_features();
        R *const df = scratch, *const f = scratch + K, *const active = scratch + 2 * K;
        std::fill_n(sums, D + K, R(0));
        for (int64_t i = 0; i < N; ++i) {
            R* const dx = to.row(i).data() + h * D;
            std::fill_n(dx, D, R(0));
            const R* const x = ready.row(i).data() + h * D;
            for (int64_t feature = 0; feature < features; ++feature) {
                if (feature * heads / features != h) continue;
                std::fill_n(df, K, R(0));
                for (int64_t s = 0; s < S; ++s)
                    for (int64_t j = 0; j < (is_query ? Q : 1); ++j) {
                        const int64_t reads = c.head_of_state(s, features) + j;
                        if (reads != feature) continue;
                        const R* const from = is_query
                                                  ? rows.dq_states.row(i).data() + (s * Q + j) * K
                                                  : rows.dk_states.row(i).data() + s * K;
                        for (int64_t e = 0; e < K; ++e) df[e] += from[e];
                    }
                const R* const own =
                    map.empty() ? nullptr : map.data() + (has_cosines ? 0 : feature * D * K);
                features_backward<R>(c, map_only_, own, x, df, dx, f);
                if (dmap)
                    for (int64_t o = 0; o < K; ++o)
                        run.maths.axpy(df[o], x, dmap + (feature * K + o) * D, D);
                for (int64_t o = 0; o < K && has_cosines; ++o)
                    for (int64_t e = 0; e < D; ++e)
                        sums[D + o] += df[o] * x[e] * cosine<R>(e, o, D);
            }
            if (rope_) training::rotate(*rope_, rows.angles.row(i).data(), true, dx);
            const R* const input = raw.row(i).data() + h * D;
            const bool has_silu = c.qk_activation == Activation::silu;
            if (!norm.empty()) {
                for (int64_t d = 0; d < D; ++d) active[d] = has_silu ? silu(input[d]) : input[d];
                std::copy_n(dx, D, f);
                std::fill_n(dx, D, R(0));
                training::rms_norm_row_backward<R>(
                    active, norm.data(), R(0), static_cast<R>(context_.norm_eps), D, f, dx, sums);
            }
            for (int64_t d = 0; d < D && has_silu; ++d) dx[d] *= silu_slope(input[d]);
            for (int64_t s = 0; s < S && !is_query && c.decays_from_keys; ++s)
                if (c.head_of_state(s, c.n_key) == h)
                    for (int64_t d = 0; d < D; ++d) dx[d] += rows.ddecay(i, s * D + d);
        }
    };
    const auto value_back = [&](int64_t h) {
        const View<R, 2> raw = c.conv_width > 0 ? rows.v_conv : rows.v;
        for (int64_t i = 0; i < N; ++i) {
            R* const dx = rows.dv_conv.row(i).data() + h * V;
            std::fill_n(dx, V, R(0));
            for (int64_t s = 0; s < S; ++s)
                for (int64_t j = 0; j < V && c.head_of_state(s, c.n_value) == h; ++j)
                    dx[j] += rows.dv_states(i, s * V + j);
            for (int64_t o = 0; o < H && c.has_skip; ++o)
                for (int64_t j = 0; j < V && o * c.n_value / H == h; ++j)
                    dx[j] += p.skip[o] * rows.dy(i, o * V + j);
            for (int64_t j = 0; j < V && c.v_activation == Activation::silu; ++j)
                dx[j] *= silu_slope(raw(i, h * V + j));
        }
    };
    const int64_t qk = c.n_query + c.n_key;
    run.pool.parallel_for(qk + c.n_value, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t unit = begin; unit < end; ++unit) {
            if (unit >= qk) {
                value_back(unit - qk);
                continue;
            }
            const bool is_query = unit < c.n_query;
            head_back(is_query ? unit : unit - c.n_query, is_query,
                      rows.scratch + thread * rows.scratch_each, rows.head_sums + unit * (D + K));
        }
    });
    R* const dnorms[] = {c.has_qk_norm ? run.grad(c.qkv_prefix + "q_norm.weight") : nullptr,
                         c.has_qk_norm ? run.grad(c.qkv_prefix + "k_norm.weight") : nullptr};
    R* const dfrequency = has_cosines ? run.grad(c.prefix + "feature_map.weight") : nullptr;
    for (int64_t unit = 0; unit < qk; ++unit) {
        const R* const sums = rows.head_sums + unit * (D + K);
        R* const dnorm = dnorms[unit < c.n_query ? 0 : 1];
        for (int64_t d = 0; d < D && dnorm; ++d) dnorm[d] += sums[d];
        for (int64_t o = 0; o < K && dfrequency; ++o) dfrequency[o] += sums[D + o];
    }
}

template <class R>
void BranchTraining::convolutions_back(const Run<R>& run, const Stretch<R>& stretch,
                                       const StretchGrads<R>& grads, const Params<R>& p,
                                       const Rows<R>& rows, View<R, 2> dq, View<R, 2> dk,
                                       View<R, 2> dv) const {
    const int64_t width = config_.conv_width;
    const View<R, 2> dys[] = {rows.dq_conv, rows.dk_conv, rows.dv_conv}, dxs[] = {dq, dk, dv};
    if (width == 0) {
        for (int which = 0; which < 3; ++which)
            for (int64_t i = 0; i < dxs[which].size(); ++i)
                dxs[which].data[i] += dys[which].data[i];
        return;
    }
    int64_t first = 0;  // channel of a fused weight
    each_convolution(p, rows, [&](int which, const auto& conv, View<R, 2> x, View<R, 2>) {
        const std::string name =
            config_.prefix + (config_.is_fused ? "conv1d" : std::string(kTails[which]) + "1d");
        R* const dweight = run.grad(name + ".weight");
        R* const dbias = conv.bias.empty() ? nullptr : run.grad(name + ".bias");
        const int64_t all = x.shape[1];
        run.pool.parallel_for(all, 16, [&](int64_t begin, int64_t end, int) {
            for (int64_t c = begin; c < end; ++c)
                for (int64_t b = 0; b < rows.B; ++b) {
                    const int64_t at = b * rows.T * all + c;
                    const bool has_state = !stretch.states.empty() && width > 1;
                    convolve_backward<R>(
                        conv, width, c, x.data + at, all, rows.T,
                        has_state ? tail_of<R>(*stretch.layout, which, stretch.states[b]) + c
                                  : nullptr,
                        dys[which].data + at, dxs[which].data + at,
                        has_state ? tail_of<R>(*stretch.layout, which, grads.dstates[b]) + c
                                  : nullptr,
                        dweight ? dweight + (first + c) * width : nullptr,
                        dbias ? dbias + c : nullptr);
                }
        });
        if (config_.is_fused) first += all;
    });
}

template <class R>
void BranchTraining::backward(const Run<R>& run, const Stretch<R>& stretch,
                              const StretchGrads<R>& grads, View<const R, 2> normed,
                              const Rows<R>& rows, View<R, 2> dq, View<R, 2> dk, View<R, 2> dv,
                              View<R, 2> dnormed) const {
    const Params<R> p = params(run);
    std::fill_n(rows.dstates, rows.B * config_.n_states * state_size(), R(0));
    if (!grads.dstates.empty())
        each_field(*stretch.layout, grads.dstates, rows.dstates,
                   [](R* mine, const R* theirs, int64_t n) { std::copy_n(theirs, n, mine); });
    finish_back(run, p, rows);
    recur_back(run, p, rows);
    gates_back(run, p, rows);
    heads_back(run, p, rows);
    convolutions_back(run, stretch, grads, p, rows, dq, dk, dv);
    if (!grads.dstates.empty())
        each_field(*stretch.layout, grads.dstates, rows.dstates,
                   [](const R* mine, R* theirs, int64_t n) { std::copy_n(mine, n, theirs); });
    const View<R, 2> douts[] = {rows.ddecay, rows.dstrength, rows.dgate};
    for (int i = 0; i < 3; ++i) {
        if (!factors_[i].has_second()) {
            factors_[i].first.backward<R>(run, normed, douts[i], dnormed);
            continue;
        }
        training::clear(rows.dlow[i]);
        factors_[i].second.backward<R>(run, rows.low[i], douts[i], rows.dlow[i]);
        factors_[i].first.backward<R>(run, normed, rows.dlow[i], dnormed);
    }
}

#define BIFOCAL_FOR(R)                                                              \
    template void BranchTraining::backward(                                         \
        const Run<R>&, const Stretch<R>&, const StretchGrads<R>&, View<const R, 2>, \
        const Rows<R>&, View<R, 2>, View<R, 2>, View<R, 2>, View<R, 2>) const;
BIFOCAL_FOR(float)
BIFOCAL_FOR(double)
#undef BIFOCAL_FOR

}  // namespace bifocal::linear
