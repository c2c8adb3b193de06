#include "mixers/linear/training/branch_training.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "mixers/linear/training/branch_parts.h"
#include "mixers/linear/training/steps_backward.h"
#include "mixers/shared/training/rows.h"

namespace bifocal::linear {

using training::Run;

BranchTraining::BranchTraining(LinearConfig config, LayerContext context)
    : config_(std::move(config)),
      map_only_(without_l2_norm(config_)),
      norm_only_(without_skip_and_gate(config_)),
      context_(std::move(context)) {
    if (config_.has_rope && context_.rope) rope_ = ops::make_rope_table(*context_.rope).value();
    factors_[0] = factors_of(config_.decay_projection);
    factors_[1] = factors_of(config_.strength_projection);
    factors_[2] = factors_of(config_.gate_projection);
}

BranchTraining::Factors BranchTraining::factors_of(const Projection& p) const {
    const std::string first = config_.prefix + p.first_name();
    if (p.n_out == 0) return {};
    if (p.rank == 0) return {{first, context_.d_model, p.n_out}, {}};
    return {{first, context_.d_model, p.rank}, {config_.prefix + p.last_name(), p.rank, p.n_out}};
}

void BranchTraining::add_state(StateLayout& layout, DType dtype) const {
    add_linear_state(config_, layout, dtype);
}

template <class R>
void BranchTraining::init_state(const StateLayout& layout, std::byte* state) const {
    if (!config_.recurrence.has_stabiliser()) return;
    std::fill_n(reinterpret_cast<R*>(state + layout.field("m").offset), config_.n_states,
                -std::numeric_limits<R>::infinity());
}

training::RunSizes BranchTraining::sizes() const {
    training::RunSizes sizes{0, 3 * config_.n_out_heads() * config_.value_dim()};
    for (const Factors& f : factors_) {
        sizes.fit(f.first.sizes());
        sizes.fit(f.second.sizes());
    }
    return sizes;
}

template <class R, class Memory>
BranchTraining::Rows<R> BranchTraining::take(Memory& memory, int64_t batch, int64_t n_tokens,
                                             int n_threads) const {
    const LinearConfig& c = config_;
    const int64_t N = batch * n_tokens, S = c.n_states, D = c.head_dim, K = c.key_dim();
    const int64_t q = c.n_query * D, k = c.n_key * D, v = c.n_value * c.value_dim();
    const int64_t out = c.n_out_heads() * c.value_dim();
    const auto rows_of = [&](int64_t width) { return training::take_rows<R>(memory, N, width); };
    const auto numbers = [&](int64_t n) { return training::take<R>(memory, n); };
    Rows<R> rows{};
    rows.B = batch, rows.T = n_tokens;
    if (c.conv_width > 0)
        rows.q_conv = rows_of(q), rows.k_conv = rows_of(k), rows.v_conv = rows_of(v);
    rows.q_head = rows_of(q), rows.k_head = rows_of(k), rows.v_head = rows_of(v);
    for (int i = 0; i < 3; ++i)
        if (factors_[i].has_second()) rows.low[i] = rows_of(factors_[i].first.n_out);
    rows.decay = rows_of(S * channels()), rows.strength = rows_of(S);
    rows.gate = rows_of(c.gate_projection.n_out);
    rows.g = rows_of(S * channels()), rows.w = rows_of(S);
    rows.q_features = rows_of(c.n_query * K), rows.k_features = rows_of(c.n_key_features() * K);
    rows.angles = rows_of(rope_ ? rope_->rotary_dim : 0);
    rows.recurred = rows_of(out), rows.y = rows_of(out);
    rows.scratch_each = static_cast<int64_t>(
        align_up(sizeof(R) * static_cast<size_t>(std::max(
                                 {training_scratch<R>(c.recurrence, n_tokens), 3 * out, 3 * K}))) /
        sizeof(R));
    rows.scratch = numbers(n_threads * rows.scratch_each);
    rows.before = numbers(batch * S * state_size());
    rows.after = numbers(batch * S * state_size());

    rows.dy = rows_of(out), rows.dgate = rows_of(c.gate_projection.n_out);
    rows.ddecay = rows_of(S * channels()), rows.dstrength = rows_of(S);
    for (int i = 0; i < 3; ++i)
        if (factors_[i].has_second()) rows.dlow[i] = rows_of(factors_[i].first.n_out);
    rows.dq_states = rows_of(S * c.recurrence.n_queries * K), rows.dk_states = rows_of(S * K);
    rows.dv_states = rows_of(S * c.value_dim());
    rows.dg = rows_of(S * channels()), rows.dw = rows_of(S);
    rows.dq_conv = rows_of(q), rows.dk_conv = rows_of(k), rows.dv_conv = rows_of(v);
    rows.dstates = numbers(batch * S * state_size());
    rows.head_sums = numbers((c.n_query + c.n_key) * (D + K));
    return rows;
}

template <class R>
void BranchTraining::load(const Stretch<R>& stretch, const Rows<R>& rows) const {
    const int64_t size = rows.B * config_.n_states * state_size();
    std::fill_n(rows.before, size, R(0));
    for (int64_t i = 0; i < rows.B * config_.n_states; ++i)
        if (R* const m = state_at(rows.before, 0, i).m) *m = -std::numeric_limits<R>::infinity();
    if (!stretch.states.empty())
        each_field(*stretch.layout, stretch.states, rows.before,
                   [](R* mine, const R* theirs, int64_t n) { std::copy_n(theirs, n, mine); });
    std::copy_n(rows.before, size, rows.after);
}

template <class R>
void BranchTraining::project(const Run<R>& run, View<const R, 2> normed,
                             const Rows<R>& rows) const {
    const View<R, 2> outs[] = {rows.decay, rows.strength, rows.gate};
    for (int i = 0; i < 3; ++i) {
        if (!factors_[i].has_second()) {
            factors_[i].first.forward(run, normed, outs[i]);
            continue;
        }
        factors_[i].first.forward(run, normed, rows.low[i]);
        factors_[i].second.forward<R>(run, rows.low[i], outs[i]);
    }
}

template <class R>
void BranchTraining::prepare(const Run<R>& run, const Stretch<R>& stretch, const Params<R>& p,
                             const Rows<R>& rows) const {
    const int64_t width = config_.conv_width;
    const auto convolve_all = [&](int which, const auto& conv, View<R, 2> x, View<R, 2> y) {
        const int64_t all = x.shape[1];
        std::copy_n(x.data, x.size(), y.data);
        run.pool.parallel_for(rows.B * all, 64, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t b = i / all, c = i % all;
                R tail[kMaxConvolution] = {};
                if (!stretch.states.empty())
                    for (int64_t j = 0; j < width - 1; ++j)
                        tail[j] =
                            tail_of<R>(*stretch.layout, which, stretch.states[b])[j * all + c];
                convolve<R>(conv, width, c, y.data + b * rows.T * all + c, all, rows.T, tail, 1);
            }
        });
    };
    if (width > 0) each_convolution(p, rows, convolve_all);
    const auto copy = [](View<R, 2> from, View<R, 2> to, int64_t i) {
        std::copy_n(from.row(i).data(), from.shape[1], to.row(i).data());
    };
    run.pool.parallel_for(rows.B * rows.T, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            R* const angles = rows.angles.row(i).data();
            if (rope_) training::find_angles(*rope_, stretch.pos[i / rows.T] + i % rows.T, angles);
            copy(width > 0 ? rows.q_conv : rows.q, rows.q_head, i);
            copy(width > 0 ? rows.k_conv : rows.k, rows.k_head, i);
            copy(width > 0 ? rows.v_conv : rows.v, rows.v_head, i);
            copy(rows.decay, rows.g, i);
            copy(rows.strength, rows.w, i);
            prepare_token<R>(config_, p,
                             {rows.q_head.row(i).data(), rows.k_head.row(i).data(),
                              rows.v_head.row(i).data(), rows.g.row(i).data(), rows.w.row(i).data(),
                              rows.q_features.row(i).data(), rows.k_features.row(i).data()},
                             static_cast<R>(context_.norm_eps), [&](R* head) {
                                 if (rope_) training::rotate(*rope_, angles, false, head);
                             });
        }
    });
}

template <class R>
void BranchTraining::forward(const Run<R>& run, const Stretch<R>& stretch, View<const R, 2> normed,
                             const Rows<R>& rows) const {
    const Params<R> p = params(run);
    load(stretch, rows);
    project(run, normed, rows);
    prepare(run, stretch, p, rows);
    const int64_t S = config_.n_states;
    run.pool.parallel_for(rows.B * S, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i)
            training_forward<R>(config_.recurrence, tokens(rows, p, i / S, i % S),
                                state_at(rows.after, i / S, i % S), run.maths,
                                {rows.scratch + thread * rows.scratch_each,
                                 static_cast<size_t>(rows.scratch_each)});
    });
    run.pool.parallel_for(rows.B * rows.T, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            std::copy_n(rows.recurred.row(i).data(), rows.y.shape[1], rows.y.row(i).data());
            finish_output<R>(config_, p, rows.v_head.row(i).data(), rows.gate.row(i).data(),
                             rows.y.row(i).data());
        }
    });
}

template <class R>
void BranchTraining::advance(const Stretch<R>& stretch, const Rows<R>& rows) const {
    if (stretch.states.empty()) return;
    each_field(*stretch.layout, stretch.states, rows.after,
               [](const R* mine, R* theirs, int64_t n) { std::copy_n(mine, n, theirs); });
    const int64_t held = config_.conv_width - 1;
    const View<R, 2> inputs[] = {rows.q, rows.k, rows.v};
    for (int which = 0; which < 3 && held > 0; ++which)
        for (int64_t b = 0; b < rows.B; ++b) {
            const int64_t all = inputs[which].shape[1];
            R* const tail = tail_of<R>(*stretch.layout, which, stretch.states[b]);
            for (int64_t j = 0; j < held; ++j) {
                const int64_t t = rows.T - held + j;  // of the tail's row j
                const R* const from =
                    t < 0 ? tail + (held + t) * all : inputs[which].row(b * rows.T + t).data();
                std::copy_n(from, all, tail + j * all);
            }
        }
}

#define BIFOCAL_FOR(R)                                                                          \
    template void BranchTraining::init_state<R>(const StateLayout&, std::byte*) const;          \
    template BranchTraining::Rows<R> BranchTraining::take<R>(training::ByteCount&, int64_t,     \
                                                             int64_t, int) const;               \
    template BranchTraining::Rows<R> BranchTraining::take<R>(Workspace&, int64_t, int64_t, int) \
        const;                                                                                  \
    template void BranchTraining::forward(const Run<R>&, const Stretch<R>&, View<const R, 2>,   \
                                          const Rows<R>&) const;                                \
    template void BranchTraining::advance(const Stretch<R>&, const Rows<R>&) const;
BIFOCAL_FOR(float)
BIFOCAL_FOR(double)
#undef BIFOCAL_FOR

}  // namespace bifocal::linear
