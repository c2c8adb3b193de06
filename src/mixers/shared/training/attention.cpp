#include "mixers/shared/training/attention.h"

#include <cmath>
#include <limits>

#include "core/check.h"
#include "mixers/shared/training/rows.h"

namespace bifocal::training {
namespace {

constexpr const char* kQNorm = "self_attn.q_norm.weight";
constexpr const char* kKNorm = "self_attn.k_norm.weight";
constexpr const char* kSinks = "self_attn.sinks";

template <class R>
R* field_of(const StateLayout& layout, const char* name, std::byte* state) {
    return reinterpret_cast<R*>(state + layout.field(name).offset);
}

}  // namespace

AttentionTraining::AttentionTraining(AttentionConfig config, LayerContext context)
    : config_(std::move(config)), context_(std::move(context)) {
    if (context_.rope) rope_ = ops::make_rope_table(*context_.rope).value();
    sink_tokens_ = config_.ring ? config_.ring->sink_tokens : 0;
    window_ = config_.ring ? config_.ring->window : std::numeric_limits<int64_t>::max() / 2;
}

void AttentionTraining::add_state(StateLayout& layout, const StateOptions& options,
                                  DType dtype) const {
    const int64_t slots = config_.ring ? sink_tokens_ + window_ : options.capacity;
    for (const char* name : {"k", "v"})
        layout.add(name, dtype, {slots, context_.n_kv_heads, context_.head_dim});
    if (!config_.ring) layout.capacity = slots;
}

RunSizes AttentionTraining::sizes() const {
    return {0, 2 * context_.head_dim};
}

template <class R, class Memory>
AttentionTraining::Rows<R> AttentionTraining::take(Memory& memory, const StateLayout* layout,
                                                   int64_t batch, int64_t n_tokens,
                                                   int n_threads) const {
    const int64_t N = batch * n_tokens, H = context_.n_heads, D = context_.head_dim;
    const int64_t G = context_.n_kv_heads, rotary = rope_ ? rope_->rotary_dim : 0;
    Rows<R> rows{};
    rows.B = batch, rows.T = n_tokens;
    rows.held = layout == nullptr ? 0 : layout->field("k").shape[0];
    const int64_t n_keys = batch * (rows.held + n_tokens);
    rows.out = take_rows<R>(memory, N, H * D);
    rows.queries = take_rows<R>(memory, N, H * D);
    rows.sink_queries = has_sink_query() ? take_rows<R>(memory, N, H * D) : rows.queries;
    rows.keys = take_rows<R>(memory, n_keys, G * D);
    rows.values = take_rows<R>(memory, n_keys, G * D);
    rows.angles = take_rows<R>(memory, N, rotary);
    rows.sink_angles = take_rows<R>(memory, has_sink_query() ? N : 0, rotary);
    rows.scores = training::take<R>(memory, n_threads * 2 * (rows.held + n_tokens));
    rows.dout = take_rows<R>(memory, N, H * D);
    rows.dqueries = take_rows<R>(memory, N, H * D);
    rows.dsink_queries = has_sink_query() ? take_rows<R>(memory, N, H * D) : rows.dqueries;
    rows.dkeys = take_rows<R>(memory, n_keys, G * D);
    rows.dvalues = take_rows<R>(memory, n_keys, G * D);
    rows.dsinks = training::take<R>(memory, batch * H);
    return rows;
}

AttentionTraining::Held AttentionTraining::held_at(int64_t pos, bool has_state) const {
    if (!has_state) return {pos, 0, pos};
    const int64_t sinks = std::min(sink_tokens_, pos);
    return {pos, sinks, std::max(sinks, pos - window_ + 1)};
}

template <class F>
void AttentionTraining::each_slot(const Held& held, int64_t end, F f) const {
    const Held after = held_at(end, true);
    for (int64_t j = 0; j < after.sinks; ++j) f(j, held.row(j));
    for (int64_t j = after.first; j < end; ++j)
        f(sink_tokens_ + (j - sink_tokens_) % window_, held.row(j));
}

template <class R>
void AttentionTraining::prepare(const Run<R>& run, const Stretch<R>& stretch,
                                const Rows<R>& rows) const {
    const int64_t H = context_.n_heads, G = context_.n_kv_heads, D = context_.head_dim;
    const R* const q_norm = run.weight(kQNorm);
    const R* const k_norm = run.weight(kKNorm);
    const auto offset = static_cast<R>(context_.norm_offset);
    const auto eps = static_cast<R>(context_.norm_eps);
    run.pool.parallel_for(rows.B * rows.T, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / rows.T, pos = stretch.pos[b] + i % rows.T;
            R* const angles = rows.angles.row(i).data();
            if (rope_) find_angles(*rope_, pos, angles);
            // Cache positions count slots: the newest token is at most the last one.
            R* const sink_angles = has_sink_query() ? rows.sink_angles.row(i).data() : nullptr;
            if (sink_angles)
                find_angles(*rope_, std::min(pos, sink_tokens_ + window_ - 1), sink_angles);
            R* const q = rows.queries.row(i).data();
            R* const sink_q = rows.sink_queries.row(i).data();
            std::copy_n(rows.q.row(i).data(), H * D, q);
            for (int64_t h = 0; h < H && q_norm; ++h)
                rms_norm_row<R>(q + h * D, q_norm, offset, eps, D, q + h * D);
            if (sink_angles) std::copy_n(q, H * D, sink_q);
            for (int64_t h = 0; h < H && rope_; ++h) {
                rotate(*rope_, angles, false, q + h * D);
                if (sink_angles) rotate(*rope_, sink_angles, false, sink_q + h * D);
            }
            const Held held = held_at(stretch.pos[b], !stretch.states.empty());
            const int64_t row = b * (rows.held + rows.T) + held.row(pos);
            R* const k = rows.keys.row(row).data();
            std::copy_n(rows.k.row(i).data(), G * D, k);
            std::copy_n(rows.v.row(i).data(), G * D, rows.values.row(row).data());
            for (int64_t g = 0; g < G; ++g) {
                if (k_norm) rms_norm_row<R>(k + g * D, k_norm, offset, eps, D, k + g * D);
                if (rope_) rotate(*rope_, angles, false, k + g * D);
            }
        }
    });
    for (size_t b = 0; b < stretch.states.size(); ++b) {
        const Held held = held_at(stretch.pos[b], true);
        const R* const k = field_of<R>(*stretch.layout, "k", stretch.states[b]);
        const R* const v = field_of<R>(*stretch.layout, "v", stretch.states[b]);
        const int64_t first = static_cast<int64_t>(b) * (rows.held + rows.T);
        each_slot(held, held.pos, [&](int64_t slot, int64_t row) {
            std::copy_n(k + slot * G * D, G * D, rows.keys.row(first + row).data());
            std::copy_n(v + slot * G * D, G * D, rows.values.row(first + row).data());
        });
    }
}

// What one head of one token reads: rows [0, sinks) and [first, last] of its sequence.
template <class R>
struct AttentionTraining::Query {
    int64_t i, h, b;  // row of the call, query head, sequence
    int64_t offset;   // of the head's elements in q
    int64_t sinks, first, last;
    int64_t base;       // row of the sequence among the keys
    int64_t kv_offset;  // of the kv head's elements
    R* scores;          // two of [held + T]
    int64_t room;

    // Calls f(n, row of keys, whether the sink query reads it) for each that is seen.
    template <class F>
    void each(F f) const {
        int64_t n = 0;
        for (int64_t row = 0; row < sinks; ++row) f(n++, base + row, true);
        for (int64_t row = first; row <= last; ++row) f(n++, base + row, false);
    }
};

template <class R, class F>
void AttentionTraining::each_query(const Run<R>& run, const Stretch<R>& stretch,
                                   const Rows<R>& rows, F f) const {
    const int64_t G = context_.n_kv_heads, D = context_.head_dim;
    const int64_t group = context_.n_heads / G, room = rows.held + rows.T;
    run.pool.parallel_for(rows.B * G, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t b = unit / G, g = unit % G;
            const Held held = held_at(stretch.pos[b], !stretch.states.empty());
            for (int64_t t = 0; t < rows.T; ++t) {
                const int64_t pos = held.pos + t;
                // Sinks that are in the window are read as sinks.
                const int64_t sink_end = std::min(sink_tokens_, pos + 1);
                const int64_t sinks = std::max<int64_t>(
                    held.sinks > 0 ? held.row(sink_end - 1) + 1 : sink_end - held.first, 0);
                const int64_t first = std::max({held.first, sink_end, pos - window_ + 1});
                for (int64_t h = g * group; h < (g + 1) * group; ++h)
                    f(Query<R>{b * rows.T + t, h, b, h * D, sinks, held.row(first), held.row(pos),
                               b * room, g * D, rows.scores + thread * 2 * room, room});
            }
        }
    });
}

// eq. (5) and (6): what the query takes of each row it sees; the sink's share is returned.
template <class R>
R AttentionTraining::find_shares(const Run<R>& run, const Rows<R>& rows, const Query<R>& query,
                                 const R* sink_logits) const {
    const int64_t D = context_.head_dim;
    const R* const q = rows.queries.row(query.i).data() + query.offset;
    const R* const sink_q = rows.sink_queries.row(query.i).data() + query.offset;
    R* const shares = query.scores;
    R top = sink_logits ? sink_logits[query.h] : -std::numeric_limits<R>::infinity();
    query.each([&](int64_t n, int64_t row, bool is_sink) {
        const R* const key = rows.keys.row(row).data() + query.kv_offset;
        shares[n] = static_cast<R>(context_.scale) * run.maths.dot(is_sink ? sink_q : q, key, D);
        top = std::max(top, shares[n]);
    });
    R sink = sink_logits ? std::exp(sink_logits[query.h] - top) : R(0);
    R total = sink;
    query.each([&](int64_t n, int64_t, bool) { total += shares[n] = std::exp(shares[n] - top); });
    query.each([&](int64_t n, int64_t, bool) { shares[n] /= total; });
    return sink / total;
}

template <class R>
void AttentionTraining::forward(const Run<R>& run, const Stretch<R>& stretch,
                                const Rows<R>& rows) const {
    prepare(run, stretch, rows);
    clear(rows.out);
    const R* const sinks = config_.has_learned_sink ? run.weight(kSinks) : nullptr;
    each_query(run, stretch, rows, [&](const Query<R>& query) {
        find_shares(run, rows, query, sinks);
        R* const out = rows.out.row(query.i).data() + query.offset;
        query.each([&](int64_t n, int64_t row, bool) {
            run.maths.axpy(query.scores[n], rows.values.row(row).data() + query.kv_offset, out,
                           context_.head_dim);
        });
    });
}

template <class R>
void AttentionTraining::advance(const Stretch<R>& stretch, const Rows<R>& rows) const {
    const int64_t width = context_.n_kv_heads * context_.head_dim;
    for (size_t b = 0; b < stretch.states.size(); ++b) {
        const Held held = held_at(stretch.pos[b], true);
        R* const k = field_of<R>(*stretch.layout, "k", stretch.states[b]);
        R* const v = field_of<R>(*stretch.layout, "v", stretch.states[b]);
        const int64_t first = static_cast<int64_t>(b) * (rows.held + rows.T);
        each_slot(held, held.pos + rows.T, [&](int64_t slot, int64_t row) {
            std::copy_n(rows.keys.row(first + row).data(), width, k + slot * width);
            std::copy_n(rows.values.row(first + row).data(), width, v + slot * width);
        });
    }
}

// README of sliding_window, eq. (9)-(12).
template <class R>
void AttentionTraining::backward(const Run<R>& run, const Stretch<R>& stretch,
                                 const StretchGrads<R>& grads, const Rows<R>& rows, View<R, 2> dq,
                                 View<R, 2> dk, View<R, 2> dv) const {
    const int64_t H = context_.n_heads, D = context_.head_dim, width = context_.n_kv_heads * D;
    clear(rows.dqueries);
    clear(rows.dsink_queries);
    clear(rows.dkeys);
    clear(rows.dvalues);
    std::fill_n(rows.dsinks, rows.B * H, R(0));
    const auto each_state = [&](auto f) {
        for (size_t b = 0; b < grads.dstates.size(); ++b)
            f(held_at(stretch.pos[b], true), static_cast<int64_t>(b) * (rows.held + rows.T),
              field_of<R>(*stretch.layout, "k", grads.dstates[b]),
              field_of<R>(*stretch.layout, "v", grads.dstates[b]));
    };
    each_state([&](const Held& held, int64_t base, const R* k, const R* v) {
        each_slot(held, held.pos + rows.T, [&](int64_t slot, int64_t row) {
            std::copy_n(k + slot * width, width, rows.dkeys.row(base + row).data());
            std::copy_n(v + slot * width, width, rows.dvalues.row(base + row).data());
        });
    });
    const R* const sinks = config_.has_learned_sink ? run.weight(kSinks) : nullptr;
    const auto scale = static_cast<R>(context_.scale);
    each_query(run, stretch, rows, [&](const Query<R>& query) {
        const R sink_share = find_shares(run, rows, query, sinks);
        const int64_t i = query.i;
        const R* const dout = rows.dout.row(i).data() + query.offset;
        R* const dshares = query.scores + query.room;
        R along = 0;
        query.each([&](int64_t n, int64_t row, bool) {
            const R* const value = rows.values.row(row).data() + query.kv_offset;
            dshares[n] = run.maths.dot(dout, value, D);
            along += query.scores[n] * dshares[n];
        });
        rows.dsinks[query.b * H + query.h] -= sink_share * along;
        query.each([&](int64_t n, int64_t row, bool is_sink) {
            const R share = query.scores[n], dz = scale * share * (dshares[n] - along);
            const View<R, 2>& from = is_sink ? rows.sink_queries : rows.queries;
            const View<R, 2>& to = is_sink ? rows.dsink_queries : rows.dqueries;
            const int64_t at = query.kv_offset;
            run.maths.axpy(share, dout, rows.dvalues.row(row).data() + at, D);
            run.maths.axpy(dz, from.row(i).data() + query.offset, rows.dkeys.row(row).data() + at,
                           D);
            run.maths.axpy(dz, rows.keys.row(row).data() + at, to.row(i).data() + query.offset, D);
        });
    });
    R* const dlogits = config_.has_learned_sink ? run.grad(kSinks) : nullptr;
    for (int64_t i = 0; i < rows.B * H && dlogits; ++i) dlogits[i % H] += rows.dsinks[i];
    each_state([&](const Held& held, int64_t base, R* k, R* v) {
        std::fill_n(k, rows.held * width, R(0));
        std::fill_n(v, rows.held * width, R(0));
        each_slot(held, held.pos, [&](int64_t slot, int64_t row) {
            std::copy_n(rows.dkeys.row(base + row).data(), width, k + slot * width);
            std::copy_n(rows.dvalues.row(base + row).data(), width, v + slot * width);
        });
    });
    prepare_backward(run, stretch, rows, dq, dk, dv);
}

template <class R>
void AttentionTraining::prepare_backward(const Run<R>& run, const Stretch<R>& stretch,
                                         const Rows<R>& rows, View<R, 2> dq, View<R, 2> dk,
                                         View<R, 2> dv) const {
    const int64_t H = context_.n_heads, G = context_.n_kv_heads, D = context_.head_dim;
    const R* const q_norm = run.weight(kQNorm);
    const R* const k_norm = run.weight(kKNorm);
    R* const dnorms[] = {run.grad(kQNorm), run.grad(kKNorm)};
    // The norm and rotation of one head, back; dhead is overwritten.
    const auto head_back = [&](const R* x, const R* weight, R* dhead, R* dx, R* dweight) {
        if (weight) {
            rms_norm_row_backward<R>(x, weight, static_cast<R>(context_.norm_offset),
                                     static_cast<R>(context_.norm_eps), D, dhead, dx, dweight);
        } else {
            for (int64_t d = 0; d < D; ++d) dx[d] += dhead[d];
        }
    };
    run.sum_over_tokens(
        rows.B * rows.T, 2 * D,
        [&](int64_t i, R* sums, int) {
            const R* const angles = rows.angles.row(i).data();
            for (int64_t h = 0; h < H; ++h) {
                R* const dhead = rows.dqueries.row(i).data() + h * D;
                if (rope_) rotate(*rope_, angles, true, dhead);
                if (has_sink_query()) {
                    R* const dsink = rows.dsink_queries.row(i).data() + h * D;
                    rotate(*rope_, rows.sink_angles.row(i).data(), true, dsink);
                    for (int64_t d = 0; d < D; ++d) dhead[d] += dsink[d];
                }
                head_back(rows.q.row(i).data() + h * D, q_norm, dhead, dq.row(i).data() + h * D,
                          sums);
            }
            const int64_t b = i / rows.T;
            const Held held = held_at(stretch.pos[b], !stretch.states.empty());
            const int64_t row = b * (rows.held + rows.T) + held.size() + i % rows.T;
            for (int64_t g = 0; g < G; ++g) {
                R* const dhead = rows.dkeys.row(row).data() + g * D;
                if (rope_) rotate(*rope_, angles, true, dhead);
                head_back(rows.k.row(i).data() + g * D, k_norm, dhead, dk.row(i).data() + g * D,
                          sums + D);
            }
            for (int64_t d = 0; d < G * D; ++d) dv(i, d) += rows.dvalues(row, d);
        },
        [&](int64_t j, R sum) {
            if (R* const dnorm = dnorms[j / D]) dnorm[j % D] += sum;
        });
}

#define BIFOCAL_FOR(R)                                                                             \
    template AttentionTraining::Rows<R> AttentionTraining::take<R>(ByteCount&, const StateLayout*, \
                                                                   int64_t, int64_t, int) const;   \
    template AttentionTraining::Rows<R> AttentionTraining::take<R>(Workspace&, const StateLayout*, \
                                                                   int64_t, int64_t, int) const;   \
    template void AttentionTraining::forward(const Run<R>&, const Stretch<R>&, const Rows<R>&)     \
        const;                                                                                     \
    template void AttentionTraining::advance(const Stretch<R>&, const Rows<R>&) const;             \
    template void AttentionTraining::backward(const Run<R>&, const Stretch<R>&,                    \
                                              const StretchGrads<R>&, const Rows<R>&, View<R, 2>,  \
                                              View<R, 2>, View<R, 2>) const;
BIFOCAL_FOR(float)
BIFOCAL_FOR(double)
#undef BIFOCAL_FOR

}  // namespace bifocal::training
