#include "mixers/linear/reference.h"

#include <limits>

#include "core/check.h"
#include "mixers/linear/recurrence_reference.h"
#include "mixers/linear/steps.h"
#include "mixers/linear/token_shift.h"
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
        for (int64_t t = 0; t < T(); ++t)
            reference_join(std::span<R>(out[t]), weights_, layer_, x_.row(t));
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
        std::array<ReferenceRows<R>, kShifts> shifted;
        if (c_.shift_rank > 0) shifted = shift(normed);
        const auto input = [&](ShiftFor which) -> const ReferenceRows<R>& {
            return c_.shift_rank > 0 ? shifted[static_cast<size_t>(which)] : normed;
        };
        const auto through = [&](const ReferenceRows<R>& in, const std::string& name) {
            return reference_project(in, weights_, c_.prefix + name, layer_.precision);
        };
        const auto shared = [&](const char* name, ShiftFor which) {
            return reference_project(input(which), weights_, c_.qkv_prefix + name,
                                     layer_.precision);
        };
        const int64_t q = c_.n_query * c_.head_dim, k = c_.n_key * c_.head_dim;
        const int64_t v = c_.n_value * c_.value_dim();
        if (c_.is_fused) {
            const ReferenceRows<R> all = shared("in_proj_qkv", ShiftFor::q);
            fill(q_, all, 0, q);
            fill(k_, all, q, k);
            fill(v_, all, q + k, v);
        } else if (c_.packs_heads) {
            const ReferenceRows<R> all = shared("qkv_proj", ShiftFor::q);
            for (auto [flat, part] : {std::pair{&q_, 0}, std::pair{&k_, 1}, std::pair{&v_, 2}}) {
                flat->width = q;
                for (const std::vector<R>& row : all)
                    for (int64_t i = 0; i < q; ++i)
                        flat->values.push_back(
                            row[(3 * (i / c_.head_dim) + part) * c_.head_dim + i % c_.head_dim]);
            }
        } else {
            // The far side of a gated layer shares its q_proj.
            const bool has_gates = c_.is_far && layer_.output_gate;
            const ReferenceRows<R> rows = shared("q_proj", ShiftFor::q);
            fill(q_, has_gates ? reference_part(rows, c_.head_dim, 0) : rows, 0, q);
            fill(k_, shared("k_proj", ShiftFor::k), 0, k);
            fill(v_, shared("v_proj", ShiftFor::v), 0, v);
        }
        const auto extra = [&](Flat<R>& flat, const Projection& p, int64_t width,
                               const ReferenceRows<R>& in) {
            if (p.n_out == 0) return zero(flat, width);
            if (p.rank == 0) return fill(flat, through(in, p.first_name()), 0, p.n_out);
            ReferenceRows<R> low = through(in, p.first_name());
            if (p.has_tanh)
                for (auto& row : low)
                    for (R& value : row) value = std::tanh(value);
            fill(flat, through(low, p.last_name()), 0, p.n_out);
        };
        const int64_t channels = c_.recurrence.decays_by_channel ? c_.key_dim() : 1;
        extra(decay_, c_.decay_projection, c_.n_states * channels, input(ShiftFor::decay));
        extra(strength_, c_.strength_projection, c_.n_states, normed);
        extra(gate_, c_.gate_projection, 0, input(ShiftFor::gate));
        zero(q_features_, c_.n_query * c_.key_dim());
        zero(k_features_, c_.n_key_features() * c_.key_dim());
        zero(y_, c_.n_out_heads() * c_.value_dim());
    }

    // eq. (23)-(25)
    std::array<ReferenceRows<R>, kShifts> shift(const ReferenceRows<R>& normed) const {
        const int64_t M = layer_.d_model, rank = c_.shift_rank;
        const std::vector<R> zeros(static_cast<size_t>(M));
        const auto mixed = [&](ReferenceRows<R> mixes) {
            for (size_t t = 0; t < normed.size(); ++t)
                shift_row(normed[t].data(), t == 0 ? zeros.data() : normed[t - 1].data(), M,
                          mixes[t].data());
            return mixes;
        };
        const auto project = [&](const ReferenceRows<R>& in, const std::string& name) {
            return reference_project(in, weights_, c_.prefix + "token_shift." + name,
                                     layer_.precision);
        };
        const ReferenceRows<R> low =
            project(mixed(ReferenceRows<R>(normed.size(), params_.shift_mu)), "down");
        std::array<ReferenceRows<R>, kShifts> shifted;
        for (int64_t i = 0; i < kShifts; ++i) {
            ReferenceRows<R> part;
            for (const auto& row : low) {
                auto& values =
                    part.emplace_back(row.begin() + i * rank, row.begin() + (i + 1) * rank);
                for (R& value : values) value = std::tanh(value);
            }
            ReferenceRows<R> mixes =
                project(part, "up." + std::string(kShiftNames[static_cast<size_t>(i)]));
            for (auto& row : mixes)
                for (int64_t m = 0; m < M; ++m) row[m] += params_.shift_bias[i * M + m];
            shifted[static_cast<size_t>(i)] = mixed(std::move(mixes));
        }
        return shifted;
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
