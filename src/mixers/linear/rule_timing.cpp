#include "mixers/shared/rule_timing.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.h"
#include "core/thread_pool.h"
#include "mixers/linear/rules/rules.h"

namespace bifocal {
namespace linear {
namespace {

// Inputs of H states over T tokens, of the size that a model's would have, and room for the rest.
class Bench final : public RuleTiming {
  public:
    Bench(const LinearConfig& config, int64_t T, int n_threads)
        : rec_(config.recurrence), H_(config.n_states), T_(T), pool_(n_threads) {
        rec_.n_queries = 1;
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        const int64_t decays = rec_.decays_by_channel ? K : 1;
        Rng rng{3};
        const auto fill = [&](std::vector<float>& all, int64_t width, auto draw) {
            all.resize(static_cast<size_t>(T_ * H_ * width));
            for (float& value : all) value = static_cast<float>(draw());
        };
        // What is divided by a sum of products has features of one sign.
        const double size = 1 / std::sqrt(static_cast<double>(K));
        const auto feature = [&] {
            return rec_.has_normaliser() ? std::fabs(rng.normal()) * size : rng.normal() * size;
        };
        fill(q_, K, feature);
        fill(k_, K, feature);
        fill(v_, V, [&] { return rng.normal(); });
        fill(g_, decays, [&] { return -0.1 * std::fabs(rng.normal()); });
        fill(w_, 1, [&] { return rec_.has_stabiliser() ? rng.normal() : rng.uniform(); });
        fill(y_, V, [] { return 0; });
        bonus_.assign(static_cast<size_t>(K), 0.5f);
        s_.resize(static_cast<size_t>(H_ * K * V));
        n_.resize(static_cast<size_t>(H_ * K));
        m_.resize(static_cast<size_t>(H_));
        each_ = scratch_floats(rec_) / 16 * 16 + 16;
        scratch_.resize(static_cast<size_t>(each_ * pool_.size()));
    }

    bool prefers_chunks() const override { return linear::prefers_chunks(rec_, T_); }

    double run(bool in_chunks) override {
        const auto form = in_chunks ? run_chunks : run_recurrent;
        std::ranges::fill(s_, 0.0f);
        std::ranges::fill(n_, 0.0f);
        std::ranges::fill(m_, -std::numeric_limits<float>::infinity());
        const auto begin = std::chrono::steady_clock::now();
        pool_.parallel_for(H_, 1, [&](int64_t first, int64_t last, int thread) {
            for (int64_t h = first; h < last; ++h)
                form(rec_, tokens(h), state(h),
                     std::span(scratch_).subspan(static_cast<size_t>(thread * each_),
                                                 static_cast<size_t>(each_)));
        });
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

  private:
    Tokens<float> tokens(int64_t h) {
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        const int64_t decays = rec_.decays_by_channel ? K : 1;
        Tokens<float> x;
        x.n = T_;
        x.q = &q_[h * K], x.q_row = H_ * K;
        x.k = &k_[h * K], x.k_row = H_ * K;
        x.v = &v_[h * V], x.v_row = H_ * V;
        x.g = &g_[h * decays], x.g_row = H_ * decays;
        x.w = &w_[h], x.w_row = H_;
        x.y = &y_[h * V], x.y_row = H_ * V;
        if (rec_.has_bonus) x.bonus = bonus_.data();
        return x;
    }
    State<float> state(int64_t h) {
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        return {&s_[h * K * V], rec_.has_normaliser() ? &n_[h * K] : nullptr,
                rec_.has_stabiliser() ? &m_[h] : nullptr};
    }

    Recurrence rec_;
    int64_t H_, T_, each_ = 0;
    ThreadPool pool_;
    std::vector<float> q_, k_, v_, g_, w_, y_, bonus_, s_, n_, m_, scratch_;
};

}  // namespace
}  // namespace linear

Result<std::unique_ptr<RuleTiming>> RuleTiming::make(const std::string& rule, const Sizes& sizes,
                                                     int n_threads) {
    LayerContext layer;
    layer.n_layers = 1;
    layer.d_model = sizes.states * sizes.head_dim;
    layer.n_heads = layer.n_kv_heads = sizes.states;
    layer.head_dim = sizes.head_dim;
    BIFOCAL_TRY(const linear::LinearConfig config,
                linear::read_config({"linear", {{"rule", rule}}}, layer));
    return std::unique_ptr<RuleTiming>(
        std::make_unique<linear::Bench>(config, sizes.tokens, n_threads));
}

}  // namespace bifocal
