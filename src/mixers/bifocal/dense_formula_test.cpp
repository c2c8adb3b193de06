// The Bifocal layer as one formula: two T × T matrices of weights, one of the window and one of the
// state, no recurrence and no chunk. Written apart from everything else here, down to norms and
// rotations, and equal to the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mixers/contract/subject.h"

namespace bifocal {
namespace {

using Vector = std::vector<double>;

struct Sink {
    const char* name;
    int64_t tokens;
    bool is_learned;
    bool at_cache;
};

class DenseFormula {
  public:
    DenseFormula(const ContractCase& c, const WeightMap& weights, Sink sink, bool states_per_query)
        : l_(c.context),
          weights_(weights),
          sink_(sink),
          per_query_(states_per_query),
          window_(c.spec.options.at("window").get<int64_t>()) {}

    // x: [T][M], becomes what follows the layer.
    void apply(std::vector<Vector>& x) const {
        const auto T = std::ssize(x);
        const int64_t D = l_.head_dim, H = l_.n_heads, group = H / l_.n_kv_heads;
        std::vector<Vector> in, q, k, v, open, mixed(x.size());
        for (const Vector& row : x) {
            in.push_back(normed(row, "input_layernorm.weight"));
            q.push_back(times("self_attn.q_proj", in.back()));
            k.push_back(times("self_attn.k_proj", in.back()));
            v.push_back(times("self_attn.v_proj", in.back()));
            open.push_back(times("self_attn.mix_gate", in.back()));
        }
        const auto head = [&](const Vector& row, int64_t h, const char* norm) {
            Vector one(row.begin() + h * D, row.begin() + (h + 1) * D);
            return l_.qk_norm ? normed(one, norm) : one;
        };
        const char* const q_norm = "self_attn.q_norm.weight";
        const char* const k_norm = "self_attn.k_norm.weight";
        for (int64_t h = 0; h < H; ++h) {
            const int64_t g = h / group, state = per_query_ ? h : g;
            for (int64_t t = 0; t < T; ++t) {
                const Vector query = head(q[t], h, q_norm);
                const Vector here = turned(query, t);
                const Vector at_cache = turned(query, std::min(t, sink_.tokens + window_ - 1));
                const Vector features = features_of("q", h, here);
                Vector a(static_cast<size_t>(t + 1)), f(a), exponents(a);
                double forgets = 0, top = -INFINITY;
                for (int64_t j = t; j >= 0; --j) {
                    const Vector key = turned(head(k[j], g, k_norm), j);
                    const bool is_sink = j < sink_.tokens;
                    if (is_sink || t - j < window_)
                        a[j] = std::exp(l_.scale *
                                        dot(is_sink && sink_.at_cache ? at_cache : here, key));
                    exponents[j] = times("self_attn.far.input_gate", in[j])[state] - forgets;
                    top = std::max(top, exponents[j]);
                    f[j] = dot(features, features_of("k", state, key)) * std::exp(exponents[j]);
                    // Decays of j count for what came before it: -log σ(f).
                    forgets +=
                        std::log1p(std::exp(-times("self_attn.far.forget_gate", in[j])[state]));
                }
                double a_sum = sink_.is_learned ? std::exp(values("self_attn.sinks")[h]) : 0;
                double f_sum = 1e-6f * std::exp(top);  // ε on the scale of the largest exponent
                for (int64_t j = 0; j <= t; ++j) a_sum += a[j], f_sum += f[j];
                const double o = 1 / (1 + std::exp(-open[t][h]));
                for (int64_t d = 0; d < D; ++d) {
                    double sum = 0;
                    for (int64_t j = 0; j <= t; ++j)
                        sum += (o * f[j] / f_sum + (1 - o) * a[j] / a_sum) * v[j][g * D + d];
                    mixed[t].push_back(sum);
                }
            }
        }
        for (int64_t t = 0; t < T; ++t) {
            Vector result = times("self_attn.o_proj", mixed[t]);
            if (l_.post_norm) result = normed(result, "post_attention_layernorm.weight");
            for (size_t m = 0; m < result.size(); ++m) x[t][m] += result[m];
        }
    }

  private:
    Vector values(const std::string& name) const {
        const auto found = weights_.find(name);
        if (found == weights_.end()) return {};
        const auto* const data = reinterpret_cast<const float*>(found->second.bytes.data());
        return {data, data + found->second.elems()};
    }
    static double dot(const Vector& a, const Vector& b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    }
    Vector times(const std::string& name, const Vector& x) const {
        const Vector w = values(name + ".weight"), bias = values(name + ".bias");
        Vector y;
        for (size_t row = 0; row * x.size() < w.size(); ++row)
            y.push_back(std::inner_product(x.begin(), x.end(), w.begin() + row * x.size(),
                                           bias.empty() ? 0.0 : bias[row]));
        return y;
    }
    Vector normed(Vector x, const char* name) const {
        const Vector w = values(name);
        const double size =
            std::sqrt(dot(x, x) / static_cast<double>(x.size()) + double{l_.norm_eps});
        for (size_t i = 0; i < x.size(); ++i) x[i] *= (w[i] + double{l_.norm_offset}) / size;
        return x;
    }
    // Pairs half a rotary size apart turn by pos · θ^(-2j / rotary size).
    Vector turned(Vector x, int64_t pos) const {
        const int64_t rotary = l_.rope->rotary_dim, half = rotary / 2;
        for (int64_t j = 0; j < half; ++j) {
            const double angle =
                static_cast<double>(pos) *
                std::pow(l_.rope->theta, -2 * static_cast<double>(j) / static_cast<double>(rotary));
            const double a = x[j], b = x[j + half];
            x[j] = a * std::cos(angle) - b * std::sin(angle);
            x[j + half] = a * std::sin(angle) + b * std::cos(angle);
        }
        return x;
    }
    // softmax(U x) of head h.
    Vector features_of(const std::string& side, int64_t h, const Vector& x) const {
        const Vector maps = values("self_attn.far.feature_map." + side + ".weight");
        const size_t n = x.size(), from = static_cast<size_t>(h) * n * n;
        Vector y(n);
        double sum = 0;
        for (size_t o = 0; o < n; ++o) {
            const double score =
                std::inner_product(x.begin(), x.end(), maps.begin() + from + o * n, 0.0);
            sum += y[o] = std::exp(score);
        }
        for (double& value : y) value /= sum;
        return y;
    }

    const LayerContext& l_;
    const WeightMap& weights_;
    Sink sink_;
    bool per_query_;
    int64_t window_;
};

TEST(BifocalDenseFormula, IsTheReference) {
    constexpr int64_t kTokens = 33;
    for (const Sink sink : {Sink{"none", 0, false, false}, Sink{"learned", 0, true, false},
                            Sink{"tokens", 3, false, false}, Sink{"cache", 2, true, true}})
        for (const char* states : {"kv", "q"})
            for (const bool is_rich : {false, true}) {
                ContractCase c{
                    .name = "dense",
                    .spec = {"bifocal", {{"window", 7}, {"far", "mlstm"}, {"state_heads", states}}},
                    .context = small_layer()};
                c.spec.options["sink_tokens"] = sink.tokens;
                if (sink.is_learned) c.spec.options["sink"] = "learned";
                if (sink.at_cache) c.spec.options["sink_positions"] = "cache";
                if (is_rich) {
                    c.context.qk_norm = c.context.qkv_bias = c.context.post_norm = true;
                    c.context.norm_offset = 1;
                    c.context.rope->rotary_dim = 6;
                }
                c.n_tokens = kTokens;
                const contract::Subject subject(c);
                const std::vector<float> x = subject.rows();
                const std::vector<double> truth = subject.reference(x, Mixer::Real::f64);
                const int64_t M = subject.width();
                std::vector<Vector> rows;
                for (int64_t t = 0; t < kTokens; ++t)
                    rows.emplace_back(x.begin() + t * M, x.begin() + (t + 1) * M);
                DenseFormula(c, subject.weights(), sink, states[0] == 'q').apply(rows);
                for (int64_t t = 0; t < kTokens; ++t)
                    for (int64_t m = 0; m < M; ++m)
                        ASSERT_NEAR(rows[t][m], truth[t * M + m], 1e-10)
                            << sink.name << ", states per " << states << ", token " << t;
            }
}

}  // namespace
}  // namespace bifocal
