// Both definitions agree in double, and both fast forms agree with them, for every kind of decay,
// write, normaliser and head group, at lengths around the chunk and with states that go on.
#include "mixers/linear/recurrence.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "core/testing/compare.h"
#include "mixers/linear/recurrence_reference.h"

namespace bifocal::linear {
namespace {

struct Case {
    std::string name;
    Recurrence rec;
    double decay = 0.1;  // mean of -g
    bool has_strengths = true;
};

// Inputs and outputs with rows further apart than they are long.
template <class R>
struct Problem {
    Recurrence rec;
    int64_t n = 0;
    std::vector<R> q, k, v, g, w, bonus, y, s, norm, m;

    Problem(const Case& c, int64_t n_tokens, uint64_t seed) : rec(c.rec), n(n_tokens) {
        Rng rng{seed};
        const int64_t K = rec.key_dim, V = rec.value_dim, G = rec.n_queries;
        const auto fill = [&](std::vector<R>& x, int64_t size, auto value) {
            x.resize(static_cast<size_t>(size));
            for (R& element : x) element = static_cast<R>(static_cast<float>(value()));
        };
        const auto normal = [&] { return rng.normal(); };
        // Sums that are divided by may not come near 0 by chance: a pure sum has features of one
        // sign, one with a floor has mostly such.
        const auto feature = [&] {
            if (rec.normaliser == Normaliser::sum) return rng.uniform() + 0.01;
            return rec.has_normaliser() ? 0.6 + 0.3 * rng.normal() : rng.normal();
        };
        fill(q, n * (G * K + 3), feature);
        fill(k, n * (K + 1), feature);
        if (rec.write == Write::delta) {
            for (int64_t t = 0; t < n; ++t) {
                R sum = 0;
                for (int64_t i = 0; i < K; ++i) sum += k[t * (K + 1) + i] * k[t * (K + 1) + i];
                for (int64_t i = 0; i < K; ++i) {
                    R& x = k[t * (K + 1) + i];
                    x = static_cast<R>(static_cast<float>(x / std::sqrt(sum)));
                }
            }
        }
        fill(v, n * (V + 2), normal);
        fill(g, n * (rec.decays_by_channel ? K : 1), [&] { return -2 * c.decay * rng.uniform(); });
        if (c.has_strengths) {
            fill(w, n, [&] {
                if (!rec.has_stabiliser()) return 0.05 + 0.9 * rng.uniform();
                return 6 * rng.normal();
            });
        }
        if (rec.has_bonus) fill(bonus, K, normal);
        y.resize(static_cast<size_t>(n * (G * V + 5)), R(77));
        reset();
    }
    void reset() {
        s.assign(static_cast<size_t>(rec.key_dim * rec.value_dim), R(0));
        norm.assign(static_cast<size_t>(rec.key_dim), R(0));
        m.assign(1, -std::numeric_limits<R>::infinity());
    }
    Tokens<R> tokens() {
        const int64_t K = rec.key_dim, V = rec.value_dim, G = rec.n_queries;
        Tokens<R> x;
        x.n = n;
        x.q = q.data(), x.q_row = G * K + 3;
        x.k = k.data(), x.k_row = K + 1;
        x.v = v.data(), x.v_row = V + 2;
        x.g = g.data(), x.g_row = rec.decays_by_channel ? K : 1;
        x.w = w.empty() ? nullptr : w.data(), x.w_row = 1;
        x.bonus = bonus.empty() ? nullptr : bonus.data();
        x.y = y.data(), x.y_row = G * V + 5;
        return x;
    }
    State<R> state() {
        return {s.data(), rec.has_normaliser() ? norm.data() : nullptr,
                rec.has_stabiliser() ? m.data() : nullptr};
    }
    // [n, n_queries * V]
    std::vector<R> outputs() const {
        const int64_t width = rec.n_queries * rec.value_dim;
        std::vector<R> out;
        for (int64_t t = 0; t < n; ++t)
            out.insert(out.end(), y.begin() + t * (width + 5), y.begin() + t * (width + 5) + width);
        return out;
    }
};

std::vector<Case> cases() {
    std::vector<Case> all;
    const auto add = [&](std::string name, Recurrence rec, double decay = 0.1,
                         bool has_strengths = true) {
        all.push_back({std::move(name), rec, decay, has_strengths});
    };
    using N = Normaliser;
    const Recurrence base{.key_dim = 7, .value_dim = 5, .scale = 0.4f};
    const auto with = [&](auto change) {
        Recurrence rec = base;
        change(rec);
        return rec;
    };
    add("plain", base, 0.1, false);
    add("no_decay_sum", with([](Recurrence& r) { r.normaliser = N::sum; }), 0, false);
    add("sigmoid_writes_max_abs", with([](Recurrence& r) { r.normaliser = N::max_abs; }));
    add("wide", with([](Recurrence& r) { r.key_dim = 40, r.value_dim = 49; }));
    add("fast_decay", base, 20);
    for (const auto& [name, normaliser] :
         {std::pair{"exp_max_abs", N::max_abs}, std::pair{"exp_sum", N::sum},
          std::pair{"exp_bare", N::none}}) {
        add(name, with([&](Recurrence& r) {
                r.write = Write::exponential;
                r.normaliser = normaliser;
                r.n_queries = 3;
            }));
    }
    add("exp_without_strengths", with([](Recurrence& r) {
            r.write = Write::exponential;
            r.normaliser = N::sum;
        }),
        0.3, false);
    for (const int64_t queries : {1, 3, 6}) {
        const std::string suffix = "_" + std::to_string(queries);
        add("channel" + suffix, with([&](Recurrence& r) {
                r.decays_by_channel = true;
                r.n_queries = queries;
            }));
        add("delta" + suffix, with([&](Recurrence& r) {
                r.write = Write::delta;
                r.n_queries = queries;
            }));
        add("channel_delta" + suffix, with([&](Recurrence& r) {
                r.write = Write::delta;
                r.decays_by_channel = true;
                r.n_queries = queries;
                r.key_dim = 18;
            }));
    }
    for (const double decay : {1.0, 3.0, 12.0}) {
        const std::string suffix = "_decay" + std::to_string(static_cast<int>(decay));
        add("channel" + suffix, with([](Recurrence& r) { r.decays_by_channel = true; }), decay);
        add("channel_delta" + suffix, with([](Recurrence& r) {
                r.decays_by_channel = true;
                r.write = Write::delta;
            }),
            decay);
        add("bonus" + suffix, with([](Recurrence& r) {
                r.decays_by_channel = true;
                r.has_bonus = true;
                r.n_queries = 2;
            }),
            decay, false);
    }
    return all;
}

class RecurrenceTest : public ::testing::TestWithParam<Case> {
  protected:
    // The definition and its plain twin, for the whole sequence.
    void find_truth(int64_t n) {
        Problem<double> exact(GetParam(), n, 3);
        reference_recurrent(exact.rec, exact.tokens(), exact.state());
        truth_ = exact.outputs(), truth_s_ = exact.s, truth_n_ = exact.norm, truth_m_ = exact.m;
        Problem<float> plain(GetParam(), n, 3);
        reference_recurrent(plain.rec, plain.tokens(), plain.state());
        plain_ = plain.outputs(), plain_s_ = plain.s, plain_n_ = plain.norm;
    }
    void judge(const Problem<float>& fast, const std::string& what) {
        const auto good = [&](std::span<const float> x, std::span<const float> plain,
                              std::span<const double> truth, const char* name) {
            const int64_t shape[] = {std::ssize(x)};
            const auto comparison = testing::compare(x, plain, truth, shape);
            EXPECT_TRUE(comparison.ok) << what << ", " << name << ": " << comparison.message;
        };
        good(fast.outputs(), plain_, truth_, "y");
        good(fast.s, plain_s_, truth_s_, "s");
        if (fast.rec.has_normaliser()) good(fast.norm, plain_n_, truth_n_, "n");
        if (fast.rec.has_stabiliser()) {
            EXPECT_NEAR(fast.m[0], truth_m_[0], 1e-4) << what;
        }
    }

    std::vector<double> truth_, truth_s_, truth_n_, truth_m_;
    std::vector<float> plain_, plain_s_, plain_n_;
};

TEST_P(RecurrenceTest, BothDefinitionsAgreeInDouble) {
    for (const int64_t n : {1, 2, 37}) {
        Problem<double> a(GetParam(), n, 4), b(GetParam(), n, 4);
        reference_recurrent(a.rec, a.tokens(), a.state());
        reference_parallel(b.rec, b.tokens());
        const auto x = a.outputs(), y = b.outputs();
        for (size_t i = 0; i < x.size(); ++i)
            ASSERT_NEAR(x[i], y[i], 1e-10 * std::max(1.0, std::fabs(x[i]))) << n << ", " << i;
    }
}

TEST_P(RecurrenceTest, FastFormsAgreeWithTheDefinition) {
    for (const int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 150}) {
        find_truth(n);
        for (const bool by_chunks : {false, true}) {
            Problem<float> fast(GetParam(), n, 3);
            std::vector<float> scratch(static_cast<size_t>(scratch_floats(fast.rec)), NAN);
            (by_chunks ? run_chunks : run_recurrent)(fast.rec, fast.tokens(), fast.state(),
                                                     scratch);
            judge(fast, (by_chunks ? "chunks of " : "recurrent, ") + std::to_string(n));
            for (int64_t t = 0; t < n; ++t)  // between the rows
                EXPECT_EQ(fast.y[(t + 1) * fast.tokens().y_row - 1], 77);
        }
    }
}

TEST_P(RecurrenceTest, StatesGoOnFromFormToForm) {
    constexpr int64_t kTokens = 131;
    find_truth(kTokens);
    Problem<float> fast(GetParam(), kTokens, 3);
    std::vector<float> scratch(static_cast<size_t>(scratch_floats(fast.rec)), NAN);
    bool by_chunks = true;
    for (int64_t t = 0; t < kTokens; by_chunks = !by_chunks) {
        const int64_t n = std::min(kTokens - t, by_chunks ? int64_t{29} : int64_t{6});
        (by_chunks ? run_chunks : run_recurrent)(fast.rec, fast.tokens().from(t).first(n),
                                                 fast.state(), scratch);
        t += n;
    }
    judge(fast, "in turns");
}

INSTANTIATE_TEST_SUITE_P(Linear, RecurrenceTest, ::testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace bifocal::linear
