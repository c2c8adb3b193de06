#include "mixers/lolcats/reference.h"

#include <cmath>
#include <vector>

#include "mixers/linear/steps.h"

namespace bifocal {
namespace {

template <class Real>
class Run {
  public:
    Run(const LolcatsReference& reference, View<Real, 2> x)
        : r_(reference),
          c_(reference.dense.context),
          D_(c_.head_dim),
          K_(reference.map.key_dim()),
          T_(x.shape[0]),
          in_(reference.dense.inputs(x)) {
        const auto maps = [&](const char* name) {
            const std::vector<double>& values = weight(name);
            return linear::transposed(std::vector<Real>(values.begin(), values.end()), D_, K_ / 2);
        };
        const HugeVector<Real> q_map = maps("self_attn.far.feature_map.q.weight");
        const HugeVector<Real> k_map = maps("self_attn.far.feature_map.k.weight");
        const int64_t size = D_ * K_ / 2;
        for (int64_t t = 0; t < T_; ++t) {
            auto& q = q_features_.emplace_back(static_cast<size_t>(c_.n_heads * K_));
            auto& k = k_features_.emplace_back(static_cast<size_t>(c_.n_heads * K_));
            for (int64_t h = 0; h < c_.n_heads; ++h) {
                linear::find_features(r_.map, &q_map[h * size], &in_.q[t][h * D_], &q[h * K_]);
                linear::find_features(r_.map, &k_map[h * size], &in_.k[t][kv_at(h)], &k[h * K_]);
            }
        }
    }

    ReferenceRows<Real> heads(bool is_recurrent) {
        ReferenceRows<Real> y(static_cast<size_t>(T_),
                              std::vector<Real>(static_cast<size_t>(c_.n_heads * D_)));
        for (int64_t h = 0; h < c_.n_heads; ++h) {
            state_.assign(static_cast<size_t>(K_ * (D_ + 1)), Real(0));
            for (int64_t t = 0; t < T_; ++t) {
                std::vector<Real> sum(static_cast<size_t>(D_ + 1));  // the last one: of weights
                add_window(t, h, sum.data());
                if (is_recurrent) {
                    write_leaving(t, h);
                    read_state(t, h, sum.data());
                } else {
                    add_left(t, h, sum.data());
                }
                for (int64_t d = 0; d < D_; ++d) y[t][h * D_ + d] = sum[d] / sum[D_];
            }
        }
        return y;
    }

  private:
    const std::vector<double>& weight(std::string_view name) const {
        return r_.dense.weights.find(name)->second.values;
    }
    int64_t kv_at(int64_t h) const { return h / (c_.n_heads / c_.n_kv_heads) * D_; }
    Real window_share(int64_t h) const {
        return linear::sigmoid(static_cast<Real>(weight("self_attn.window_factors")[h]));
    }
    Real far_share(int64_t h) const { return r_.is_affine ? 1 - window_share(h) : Real(1); }
    void add(Real w, const Real* v, Real* sum) const {
        for (int64_t d = 0; d < D_; ++d) sum[d] += w * v[d];
        sum[D_] += w;
    }

    // eq. (2)
    void add_window(int64_t t, int64_t h, Real* sum) const {
        const int64_t first = std::max<int64_t>(0, t - r_.dense.window + 1);
        std::vector<Real> scores;
        Real top = -INFINITY;
        for (int64_t j = first; j <= t; ++j) {
            Real score = 0;
            for (int64_t d = 0; d < D_; ++d) score += in_.q[t][h * D_ + d] * in_.k[j][kv_at(h) + d];
            scores.push_back(score * static_cast<Real>(c_.scale));
            top = std::max(top, scores.back());
        }
        for (int64_t j = first; j <= t; ++j)
            add(window_share(h) * std::exp(scores[j - first] - top), &in_.v[j][kv_at(h)], sum);
    }
    // eq. (3) as a sum over the tokens before the window.
    void add_left(int64_t t, int64_t h, Real* sum) const {
        for (int64_t j = 0; j <= t - r_.dense.window; ++j) {
            Real product = 0;
            for (int64_t c = 0; c < K_; ++c)
                product += q_features_[t][h * K_ + c] * k_features_[j][h * K_ + c];
            add(far_share(h) * product, &in_.v[j][kv_at(h)], sum);
        }
    }
    // eq. (4): the state takes in what leaves the window; [K, D + 1], a column of ones last.
    void write_leaving(int64_t t, int64_t h) {
        const int64_t j = t - r_.dense.window;
        for (int64_t c = 0; c < K_ && j >= 0; ++c)
            add(k_features_[j][h * K_ + c], &in_.v[j][kv_at(h)], &state_[c * (D_ + 1)]);
    }
    void read_state(int64_t t, int64_t h, Real* sum) const {
        for (int64_t c = 0; c < K_; ++c)
            for (int64_t d = 0; d <= D_; ++d)
                sum[d] += far_share(h) * q_features_[t][h * K_ + c] * state_[c * (D_ + 1) + d];
    }

    const LolcatsReference& r_;
    const LayerContext& c_;
    int64_t D_, K_, T_;
    DenseAttention::Inputs<Real> in_;
    ReferenceRows<Real> q_features_, k_features_;  // [T, H·K]
    std::vector<Real> state_;
};

}  // namespace

template <class Real>
void LolcatsReference::forward(View<Real, 2> x, bool is_recurrent) const {
    dense.add_result(Run<Real>(*this, x).heads(is_recurrent), x);
}
template void LolcatsReference::forward<double>(View<double, 2>, bool) const;
template void LolcatsReference::forward<float>(View<float, 2>, bool) const;

}  // namespace bifocal
