#include "mixers/linear/reference.h"

#include <limits>

#include "core/check.h"
#include "mixers/linear/recurrence_reference.h"
#include "mixers/linear/steps.h"
#include "mixers/shared/reference_ops.h"

namespace bifocal::linear {
namespace {

// Rows side by side, [T, width].
template <class R>
struct Flat {
    std::vector<R> values;
    int64_t width = 0;
    R* row(int64_t t) { return values.data() + t * width; }
};

template <class R>
class Run {
  public:
    Run(const Reference& reference, View<R, 2> x)
        : c_(reference.config), layer_(reference.context), weights_(reference.weights), x_(x) {}

    ReferenceRows<R> heads(Form form) {
        if (c_.has_rope && layer_.rope) table_ = ops::make_rope_table(*layer_.rope).value();
        read_weights();
        project();
        convolve_all();
        for (int64_t t = 0; t < T(); ++t) prepare(t);
        for (int64_t s = 0; s < c_.n_states; ++s) recur(s, form);
        ReferenceRows<R> y(static_cast<size_t>(T()));
        for (int64_t t = 0; t < T(); ++t) {
            finish_output(c_, params_, v_.row(t), gate_.row(t), y_.row(t));
            y[t].assign(y_.row(t), y_.row(t) + y_.width);
        }
        return y;
    }

    void add_result(const ReferenceRows<R>& y) {
        ReferenceRows<R> out =
            reference_project(y, weights_, c_.prefix + c_.out_name, layer_.precision);
        for (int64_t t = 0; t < T(); ++t) {
            if (layer_.post_norm) norm(out[t], "post_attention_layernorm.weight");
            for (int64_t m = 0; m < layer_.d_model; ++m) x_(t, m) += out[t][m];
        }
    }

  private:
    int64_t T() const { return x_.shape[0]; }

    void norm(std::span<R> x, std::string_view name) const {
        reference_norm(x, weights_.find(name)->second, layer_);
    }

    void read_weights() {
        params_ = read_params<R>(c_, [&](const std::string& name) {
            std::vector<R> values;
            const auto found = weights_.find(name);
            if (found == weights_.end()) return values;
            const bool has_offset =
                name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight");
            for (const double value : found->second.values)
                values.push_back(static_cast<R>(value) +
                                 (has_offset ? static_cast<R>(layer_.norm_offset) : R(0)));
            return values;
        });
    }

    void fill(Flat<R>& flat, const ReferenceRows<R>& rows, int64_t from, int64_t width) {
        flat.width = width;
        for (const auto& row : rows)
            flat.values.insert(flat.values.end(), row.begin() + from, row.begin() + from + width);
    }
    void zero(Flat<R>& flat, int64_t width) {
        flat.width = width;
        flat.values.assign(static_cast<size_t>(T() * width), R(0));
    }

    void project() {
        ReferenceRows<R> normed(static_cast<size_t>(T()));
        for (int64_t t = 0; t < T(); ++t) {
            normed[t].assign(x_.row(t).begin(), x_.row(t).end());
            norm(normed[t], "input_layernorm.weight");
        }
        const auto through = [&](const ReferenceRows<R>& in, const std::string& name) {
            return reference_project(in, weights_, c_.prefix + name, layer_.precision);
        };
        const auto shared = [&](const char* name) {
            return reference_project(normed, weights_, c_.qkv_prefix + name, layer_.precision);
        };
        const int64_t q = c_.n_query * c_.head_dim, k = c_.n_key * c_.head_dim;
        const int64_t v = c_.n_value * c_.value_dim();
        if (c_.is_fused) {
            const ReferenceRows<R> all = shared("in_proj_qkv");
            fill(q_, all, 0, q);
            fill(k_, all, q, k);
            fill(v_, all, q + k, v);
        } else {
            // The far side of a gated layer shares its q_proj.
            const bool has_gates = c_.is_far && layer_.output_gate;
            const ReferenceRows<R> rows = shared("q_proj");
            fill(q_, has_gates ? reference_part(rows, c_.head_dim, 0) : rows, 0, q);
            fill(k_, shared("k_proj"), 0, k);
            fill(v_, shared("v_proj"), 0, v);
        }
        const auto extra = [&](Flat<R>& flat, const Projection& p, int64_t width) {
            if (p.n_out == 0) return zero(flat, width);
            const ReferenceRows<R> rows =
                p.rank > 0 ? through(through(normed, p.name + ".0"), p.name + ".1")
                           : through(normed, p.name);
            fill(flat, rows, 0, p.n_out);
        };
        const int64_t channels = c_.recurrence.decays_by_channel ? c_.key_dim() : 1;
        extra(decay_, c_.decay_projection, c_.n_states * channels);
        extra(strength_, c_.strength_projection, c_.n_states);
        extra(gate_, c_.gate_projection, 0);
        zero(q_features_, c_.n_query * c_.key_dim());
        zero(k_features_, c_.n_key_features() * c_.key_dim());
        zero(y_, c_.n_out_heads() * c_.value_dim());
    }

    void convolve_all() {
        if (c_.conv_width == 0) return;
        for (auto [flat, conv] : {std::pair{&q_, &params_.conv_q}, std::pair{&k_, &params_.conv_k},
                                  std::pair{&v_, &params_.conv_v}}) {
            std::vector<R> tail(static_cast<size_t>(c_.conv_width));
            for (int64_t c = 0; c < flat->width; ++c) {
                std::ranges::fill(tail, R(0));
                convolve(*conv, c_.conv_width, c, flat->values.data() + c, flat->width, T(),
                         tail.data(), 1);
            }
        }
    }

    void prepare(int64_t t) {
        prepare_token<R>(c_, params_,
                         {q_.row(t), k_.row(t), v_.row(t), decay_.row(t), strength_.row(t),
                          q_features_.row(t), k_features_.row(t)},
                         static_cast<R>(layer_.norm_eps), [&](R* head) {
                             if (table_) reference_rotate(*table_, t, head);
                         });
    }

    void recur(int64_t s, Form form) {
        const Tokens<R> tokens =
            tokens_of_state<R>(c_, params_, s, T(),
                               {q_features_.row(0), k_features_.row(0), v_.row(0), decay_.row(0),
                                strength_.row(0), y_.row(0)});
        if (form == Form::parallel) return reference_parallel(c_.recurrence, tokens);
        std::vector<R> state(static_cast<size_t>(c_.key_dim() * c_.value_dim()));
        std::vector<R> sums(static_cast<size_t>(c_.key_dim()));
        R m = -std::numeric_limits<R>::infinity();
        reference_recurrent(
            c_.recurrence, tokens,
            State<R>{state.data(), c_.recurrence.has_normaliser() ? sums.data() : nullptr, &m});
    }

    const LinearConfig& c_;
    const LayerContext& layer_;
    const ReferenceWeights& weights_;
    View<R, 2> x_;
    std::optional<ops::RopeTable> table_;
    Params<R> params_;
    Flat<R> q_, k_, v_, decay_, strength_, gate_, q_features_, k_features_, y_;
};

}  // namespace

template <class R>
ReferenceRows<R> Reference::heads(View<R, 2> x, Form form) const {
    return Run<R>(*this, x).heads(form);
}

template <class R>
void Reference::forward(View<R, 2> x, Form form) const {
    Run<R> run(*this, x);
    run.add_result(run.heads(form));
}
template ReferenceRows<double> Reference::heads<double>(View<double, 2> x, Form form) const;
template ReferenceRows<float> Reference::heads<float>(View<float, 2> x, Form form) const;
template void Reference::forward<double>(View<double, 2> x, Form form) const;
template void Reference::forward<float>(View<float, 2> x, Form form) const;

}  // namespace bifocal::linear
