#include "mixers/shared/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "mixers/shared/reference_ops.h"
#include "ops/rope.h"

namespace bifocal {
namespace {

template <class Real>
using Rows = ReferenceRows<Real>;

template <class Real>
Real kv_rounded(Real x, DType dtype) {
    const float rounded = static_cast<float>(x);
    if (dtype == DType::f32) return sizeof(Real) == sizeof(double) ? x : static_cast<Real>(rounded);
    return static_cast<Real>(bf16_to_f32(f32_to_bf16(rounded)));
}

template <class Real>
class Run {
  public:
    Run(const DenseAttention& dense, View<Real, 2> x)
        : a_(dense),
          c_(dense.context),
          x_(x),
          T_(x.shape[0]),
          D_(c_.head_dim),
          V_(c_.latent ? c_.latent->value_dim : D_) {
        if (c_.rope) table_ = ops::make_rope_table(*c_.rope).value();
    }

    void prepare() {
        const Rows<Real> normed = normed_input();  // (1)
        q_ = project(normed, "self_attn.q_proj");  // (2)
        if (c_.latent) return expand(normed);
        if (c_.output_gate) q_ = reference_part(q_, D_, 0);
        k_ = project(normed, "self_attn.k_proj");
        v_ = project(normed, "self_attn.v_proj");
        if (c_.qk_norm) norm_heads();
        raw_q_ = q_;
        for (int64_t t = 0; t < T_; ++t) {  // (3)
            for (int64_t h = 0; h < c_.n_heads; ++h) rotate(&q_[t][h * D_], t);
            for (int64_t g = 0; g < c_.n_kv_heads; ++g) rotate(&k_[t][g * D_], t);
            for (Real& value : k_[t]) value = kv_rounded(value, a_.kv_dtype);
            for (Real& value : v_[t]) value = kv_rounded(value, a_.kv_dtype);
        }
    }
    DenseAttention::Inputs<Real> inputs() const { return {q_, k_, v_}; }

    // mix(t, h, out): what head h of query t reads.
    template <class Mix>
    Rows<Real> heads(Mix mix) {
        prepare();
        Rows<Real> mixed(T_, std::vector<Real>(static_cast<size_t>(c_.n_heads * V_)));
        for (int64_t t = 0; t < T_; ++t) {
            for (int64_t h = 0; h < c_.n_heads; ++h) mix(t, h, &mixed[t][h * V_]);
        }
        return mixed;
    }

    void add_result(Rows<Real> mixed) {
        if (c_.output_gate) gate_heads(mixed);                // (7)
        Rows<Real> out = project(mixed, "self_attn.o_proj");  // (8)
        for (int64_t t = 0; t < T_; ++t)
            reference_join(std::span<Real>(out[t]), a_.weights, c_, x_.row(t));
    }

    // Query t of head h over the T × T mask. (4)-(6)
    void attend(int64_t t, int64_t h, Real* out) const {
        const int64_t kv = h / (c_.n_heads / c_.n_kv_heads), at = kv * D_;
        const std::vector<Real> moved = sink_query(t, h);
        const auto is_sink = [&](int64_t j) { return j < a_.sink_tokens; };
        const auto sees = [&](int64_t j) {
            return a_.window < 0 || j > t - a_.window || is_sink(j);
        };
        std::vector<Real> scores(static_cast<size_t>(t + 1));
        Real top = -INFINITY;
        for (int64_t j = 0; j <= t; ++j) {
            if (!sees(j)) continue;
            scores[j] = score(is_sink(j) ? moved.data() : &q_[t][h * D_], &k_[j][at]);
            top = std::max(top, scores[j]);
        }
        Real total = 0;
        if (a_.has_learned_sink) {
            const auto logit = static_cast<Real>(weight("self_attn.sinks").values[h]);
            top = std::max(top, logit);
            total = std::exp(logit - top);
        }
        for (int64_t j = 0; j <= t; ++j) {
            if (!sees(j)) continue;
            const Real w = std::exp(scores[j] - top);
            total += w;
            for (int64_t d = 0; d < V_; ++d) out[d] += w * v_[j][kv * V_ + d];
        }
        for (int64_t d = 0; d < V_; ++d) out[d] /= total;
    }

    // The same over what a memory of fixed size still holds, one token after the other with a
    // running maximum: no mask, no second pass. REQUIRES: queries come in order.
    void attend_held(int64_t t, int64_t h, Real* out) {
        if (h == 0 && t < a_.sink_tokens) held_sinks_.push_back(t);
        if (h == 0 && t >= a_.sink_tokens) held_window_.push_back(t);
        if (a_.window > 0 && static_cast<int64_t>(held_window_.size()) > a_.window) {
            held_window_.pop_front();
        }
        const Real* q = &q_[t][h * D_];
        const std::vector<Real> moved = sink_query(t, h);
        Real top = -INFINITY, total = 0;
        const auto take = [&](Real score, const Real* value) {
            const Real higher = std::max(top, score);
            const Real keep = std::exp(top - higher), w = std::exp(score - higher);
            total = total * keep + w;
            for (int64_t d = 0; d < V_; ++d) out[d] = out[d] * keep + (value ? w * value[d] : 0);
            top = higher;
        };
        if (a_.has_learned_sink) {
            take(static_cast<Real>(weight("self_attn.sinks").values[h]), nullptr);
        }
        const int64_t kv = h / (c_.n_heads / c_.n_kv_heads), at = kv * D_;
        for (const int64_t j : held_sinks_) take(score(moved.data(), &k_[j][at]), &v_[j][kv * V_]);
        for (const int64_t j : held_window_) take(score(q, &k_[j][at]), &v_[j][kv * V_]);
        for (int64_t d = 0; d < V_; ++d) out[d] /= total;
    }

  private:
    const ReferenceWeight& weight(std::string_view name) const {
        return a_.weights.find(name)->second;
    }

    void norm(std::span<Real> x, std::string_view name) const {
        reference_norm(x, weight(name), c_);
    }

    Rows<Real> project(const Rows<Real>& in, const std::string& name) const {
        return reference_project(in, a_.weights, name, c_.precision);
    }

    Rows<Real> normed_input() const {
        Rows<Real> normed(T_);
        for (int64_t t = 0; t < T_; ++t) {
            normed[t].assign(x_.row(t).begin(), x_.row(t).end());
            norm(normed[t], "input_layernorm.weight");
        }
        return normed;
    }

    // Keys and values of every head from the latent rows, as they are defined: eq. (13), (14). What
    // a ring holds, and so what is rounded, are the rows.
    void expand(const Rows<Real>& normed) {
        const LatentKeys& l = *c_.latent;
        const int64_t H = c_.n_heads, own = l.own_dim;
        raw_q_ = q_;
        Rows<Real> latent = project(normed, "self_attn.kv_a_proj_with_mqa");
        Rows<Real> shared(T_);
        for (int64_t t = 0; t < T_; ++t) {
            LayerContext norm_context = c_;
            norm_context.norm_eps = l.norm_eps;
            reference_norm(std::span<Real>(latent[t]).first(static_cast<size_t>(l.rank)),
                           weight("self_attn.kv_a_layernorm.weight"), norm_context);
            for (Real& value : latent[t]) value = kv_rounded(value, a_.kv_dtype);
            shared[t].assign(latent[t].begin() + l.rank, latent[t].end());
            latent[t].resize(static_cast<size_t>(l.rank));
        }
        const Rows<Real> both =
            reference_project(latent, a_.weights, "self_attn.kv_b_proj", Precision::exact);
        k_.resize(static_cast<size_t>(T_));
        v_.resize(static_cast<size_t>(T_));
        for (int64_t t = 0; t < T_; ++t) {
            for (int64_t h = 0; h < H; ++h) {
                const Real* const of_head = &both[t][h * (own + V_)];
                k_[t].insert(k_[t].end(), of_head, of_head + own);
                k_[t].insert(k_[t].end(), shared[t].begin(), shared[t].end());
                v_[t].insert(v_[t].end(), of_head + own, of_head + own + V_);
            }
        }
    }

    void gate_heads(Rows<Real>& mixed) const {
        const Rows<Real> gates = reference_part(project(normed_input(), "self_attn.q_proj"), D_, 1);
        for (int64_t t = 0; t < T_; ++t)
            for (size_t i = 0; i < mixed[t].size(); ++i)
                mixed[t][i] *= 1 / (1 + std::exp(-gates[t][i]));
    }

    void norm_heads() {
        for (int64_t t = 0; t < T_; ++t) {
            for (int64_t h = 0; h < c_.n_heads; ++h) {
                norm({&q_[t][h * D_], static_cast<size_t>(D_)}, "self_attn.q_norm.weight");
            }
            for (int64_t g = 0; g < c_.n_kv_heads; ++g) {
                norm({&k_[t][g * D_], static_cast<size_t>(D_)}, "self_attn.k_norm.weight");
            }
        }
    }

    void rotate(Real* head, int64_t pos) const {
        if (table_) reference_rotate(*table_, pos, head);
    }

    // What reads sink keys: the query itself, or turned to where it stands in the cache.
    std::vector<Real> sink_query(int64_t t, int64_t h) const {
        const Rows<Real>& from = a_.sinks_at_cache_positions ? raw_q_ : q_;
        std::vector<Real> q(from[t].begin() + h * D_, from[t].begin() + (h + 1) * D_);
        if (a_.sinks_at_cache_positions) {
            rotate(q.data(), std::min(t, a_.sink_tokens + a_.window - 1));
        }
        return q;
    }

    Real score(const Real* q, const Real* k) const {
        Real sum = 0;
        for (int64_t d = 0; d < D_; ++d) sum += q[d] * k[d];
        return sum * static_cast<Real>(c_.scale);
    }

    const DenseAttention& a_;
    const LayerContext& c_;
    View<Real, 2> x_;
    int64_t T_, D_, V_;  // D of keys, V of values
    std::optional<ops::RopeTable> table_;
    Rows<Real> q_, k_, v_, raw_q_;
    std::vector<int64_t> held_sinks_;  // tokens
    std::deque<int64_t> held_window_;
};

}  // namespace

template <class Real>
ReferenceRows<Real> DenseAttention::heads(View<Real, 2> x) const {
    Run<Real> run(*this, x);
    return run.heads([&](int64_t t, int64_t h, Real* out) { run.attend(t, h, out); });
}

template <class Real>
DenseAttention::Inputs<Real> DenseAttention::inputs(View<Real, 2> x) const {
    Run<Real> run(*this, x);
    run.prepare();
    return run.inputs();
}

ReferenceRows<double> DenseAttention::heads_recurrent(View<double, 2> x) const {
    Run<double> run(*this, x);
    return run.heads([&](int64_t t, int64_t h, double* out) { run.attend_held(t, h, out); });
}

template <class Real>
void DenseAttention::add_result(const ReferenceRows<Real>& heads, View<Real, 2> x) const {
    Run<Real>(*this, x).add_result(heads);
}

template ReferenceRows<double> DenseAttention::heads<double>(View<double, 2>) const;
template ReferenceRows<float> DenseAttention::heads<float>(View<float, 2>) const;
template DenseAttention::Inputs<double> DenseAttention::inputs<double>(View<double, 2>) const;
template DenseAttention::Inputs<float> DenseAttention::inputs<float>(View<float, 2>) const;
template void DenseAttention::add_result<double>(const ReferenceRows<double>&,
                                                 View<double, 2>) const;
template void DenseAttention::add_result<float>(const ReferenceRows<float>&, View<float, 2>) const;

}  // namespace bifocal
