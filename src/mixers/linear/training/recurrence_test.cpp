// The backward of the recurrence against central differences of its definition in double: every
// element of every input, from a state that is not empty to one whose gradient is not zero; both
// forms. Then the float forms against the double one.
#include "mixers/linear/training/recurrence.h"

#include <gtest/gtest.h>

#include <map>

#include "core/rng.h"
#include "core/testing/compare.h"
#include "mixers/linear/recurrence_reference.h"

namespace bifocal::linear {
namespace {

struct Case {
    std::string name;
    Recurrence rec;
    bool has_strengths = true;
    double decay = 0.1;  // mean of -g
};

std::vector<Case> cases() {
    std::vector<Case> all;
    using N = Normaliser;
    const Recurrence base{.key_dim = 7, .value_dim = 5, .scale = 0.4f};
    const auto add = [&](std::string name, auto change, bool has_strengths = true,
                         double decay = 0.1) {
        Recurrence rec = base;
        change(rec);
        all.push_back({std::move(name), rec, has_strengths, decay});
    };
    add(
        "plain", [](Recurrence&) {}, false);
    add(
        "no_decay_sum", [](Recurrence& r) { r.normaliser = N::sum, r.n_queries = 3; }, false, 0);
    add("strengths_max_abs", [](Recurrence& r) { r.normaliser = N::max_abs, r.n_queries = 2; });
    add("wide", [](Recurrence& r) { r.key_dim = 40, r.value_dim = 19; });
    for (const auto& [name, normaliser] :
         {std::pair{"exp_max_abs", N::max_abs}, std::pair{"exp_sum", N::sum},
          std::pair{"exp_bare", N::none}})
        add(name, [&](Recurrence& r) {
            r.write = Write::exponential;
            r.normaliser = normaliser;
            r.n_queries = 3;
        });
    // So large that the path through the stabiliser shows.
    add("exp_sum_large_eps", [](Recurrence& r) {
        r.write = Write::exponential;
        r.normaliser = N::sum;
        r.eps = 0.3f;
    });
    add(
        "exp_without_strengths",
        [](Recurrence& r) {
            r.write = Write::exponential;
            r.normaliser = N::max_abs;
            r.eps = 0.2f;
        },
        false, 0.3);
    add("channel", [](Recurrence& r) { r.decays_by_channel = true, r.n_queries = 2; });
    add("delta", [](Recurrence& r) { r.write = Write::delta, r.n_queries = 2; });
    add("channel_delta", [](Recurrence& r) {
        r.decays_by_channel = true;
        r.write = Write::delta;
    });
    return all;
}

// All numbers of one run by name, rows further apart than they are long.
template <class R>
struct Problem {
    Recurrence rec;
    int64_t n = 0;
    std::map<std::string, std::vector<R>> x, grads;  // inputs; dy and final gradients included
    std::vector<R> y;

    Problem(const Case& c, int64_t n_tokens, uint64_t seed) : rec(c.rec), n(n_tokens) {
        Rng rng{seed};
        const int64_t K = rec.key_dim, V = rec.value_dim, G = rec.n_queries;
        const auto fill = [&](const char* name, int64_t size, auto value) {
            auto& to = x[name];
            to.resize(static_cast<size_t>(size));
            for (R& element : to) element = static_cast<R>(static_cast<float>(value()));
        };
        const auto normal = [&] { return rng.normal(); };
        const auto feature = [&] {
            if (rec.normaliser == Normaliser::sum) return rng.uniform() + 0.01;
            return rec.has_normaliser() ? 0.6 + 0.3 * rng.normal() : 0.4 * rng.normal();
        };
        fill("q", n * (G * K + 3), feature);
        fill("k", n * (K + 1), feature);
        fill("v", n * (V + 2), normal);
        fill("g", n * (rec.decays_by_channel ? K : 1),
             [&] { return -2 * c.decay * rng.uniform(); });
        if (c.has_strengths)
            fill("w", n, [&] {
                return rec.has_stabiliser() ? 2 * rng.normal() : 0.05 + 0.9 * rng.uniform();
            });
        fill("s", K * V, normal);
        if (rec.has_normaliser()) fill("n", K, [&] { return 0.5 + rng.uniform(); });
        if (rec.has_stabiliser()) fill("m", 1, normal);
        fill("dy", n * (G * V + 5), normal);
        fill("ds", K * V, normal);
        if (rec.has_normaliser()) fill("dn", K, normal);
        if (rec.has_stabiliser()) fill("dm", 1, normal);
        y.resize(static_cast<size_t>(n * (G * V + 5)));
    }
    R* at(const std::string& name, bool is_grad = false) {
        auto& all = is_grad ? grads : x;
        const auto it = all.find(name);
        return it == all.end() ? nullptr : it->second.data();
    }
    Tokens<R> tokens() {
        const int64_t K = rec.key_dim, V = rec.value_dim, G = rec.n_queries;
        Tokens<R> t;
        t.n = n;
        t.q = at("q"), t.q_row = G * K + 3;
        t.k = at("k"), t.k_row = K + 1;
        t.v = at("v"), t.v_row = V + 2;
        t.g = at("g"), t.g_row = rec.decays_by_channel ? K : 1;
        t.w = at("w"), t.w_row = 1;
        t.y = y.data(), t.y_row = G * V + 5;
        return t;
    }
    // What the definition makes of it, weighed by dy and the gradients of the final state; these
    // count with the stabiliser held where the first call found it.
    double loss(double& held_m) {
        std::vector<R> s = x["s"], norm = x["n"], m = x["m"];
        reference_recurrent(rec, tokens(),
                            State<R>{s.data(), rec.has_normaliser() ? norm.data() : nullptr,
                                     rec.has_stabiliser() ? m.data() : nullptr});
        double sum = 0, by = 1;
        if (rec.has_stabiliser()) {
            if (std::isnan(held_m)) held_m = m[0];
            by = std::exp(m[0] - held_m);
            sum = x["dm"][0] * m[0];
        }
        const int64_t width = rec.n_queries * rec.value_dim;
        for (int64_t t = 0; t < n; ++t)
            for (int64_t j = 0; j < width; ++j)
                sum += y[t * (width + 5) + j] * x["dy"][t * (width + 5) + j];
        for (size_t i = 0; i < s.size(); ++i) sum += by * s[i] * x["ds"][i];
        for (size_t i = 0; i < norm.size(); ++i) sum += by * norm[i] * x["dn"][i];
        return sum;
    }
    void backward(bool is_plain) {
        const int64_t K = rec.key_dim, V = rec.value_dim, G = rec.n_queries;
        grads.clear();
        for (const char* name : {"q", "k", "v", "g", "w"})
            if (x.contains(name)) grads[name].assign(x[name].size(), R(0));
        grads["s"] = x["ds"];
        if (rec.has_normaliser()) grads["n"] = x["dn"];
        if (rec.has_stabiliser()) grads["m"] = x["dm"];
        TokenGrads<R> g;
        g.dy = at("dy"), g.dy_row = G * V + 5;
        g.dq = at("q", true), g.dq_row = G * K + 3;
        g.dk = at("k", true), g.dk_row = K + 1;
        g.dv = at("v", true), g.dv_row = V + 2;
        g.dg = at("g", true), g.dg_row = rec.decays_by_channel ? K : 1;
        g.dw = at("w", true), g.dw_row = 1;
        std::vector<R> scratch(static_cast<size_t>(training_scratch<R>(rec, n)), R(NAN));
        training_backward<R>(rec, tokens(), {at("s"), at("n"), at("m")}, g,
                             {at("s", true), at("n", true), at("m", true)}, {is_plain}, scratch);
    }
};

// d loss / d x[name][i] by central differences of fourth order. The stabiliser of the first state
// moves with e^m S held, as README.md says.
double difference(Problem<double>& p, const std::string& name, size_t i, double held_m) {
    const auto at = [&](double step) {
        Problem<double> moved = p;
        moved.x[name][i] += step;
        if (name == "m")
            for (const char* held : {"s", "n"})
                for (double& value : moved.x[held]) value *= std::exp(-step);
        return moved.loss(held_m);
    };
    constexpr double kStep = 1e-4;
    return (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
}

// The worst difference of any element from central differences, over the tensor's largest
// gradient; tensors whose own are far below all others' count on the others' scale.
double worst_error(Problem<double>& p) {
    double held_m = NAN, worst = 0, largest = 0;
    p.loss(held_m);
    for (const auto& [name, gradient] : p.grads)
        for (const double d : gradient) largest = std::max(largest, std::fabs(d));
    for (const auto& [name, gradient] : p.grads) {
        double error = 0, scale = 1e-4 * largest;
        for (size_t i = 0; i < gradient.size(); ++i) {
            const double truth = difference(p, name, i, held_m);
            error = std::max(error, std::fabs(truth - gradient[i]));
            scale = std::max(scale, std::fabs(truth));
        }
        worst = std::max(worst, error / scale);
    }
    return worst;
}

class RecurrenceBackward : public ::testing::TestWithParam<Case> {};

TEST_P(RecurrenceBackward, BothFormsAgreeWithFiniteDifferences) {
    for (const int64_t n : {1, 2, 16, 37})
        for (const bool is_plain : {false, true}) {
            Problem<double> p(GetParam(), n, 7 + static_cast<uint64_t>(n));
            p.backward(is_plain);
            EXPECT_LE(worst_error(p), 1e-6) << n << (is_plain ? " by tokens" : " by chunks");
        }
}

// A tensor of several seeds counts as one: worst errors of a single one are a matter of luck.
TEST_P(RecurrenceBackward, FloatAgreesWithDouble) {
    for (const int64_t n : {1, 16, 70}) {
        std::map<std::string, std::vector<double>> truths;
        std::map<std::string, std::vector<float>> plains, fasts;
        const auto append = [](auto& to, const auto& from) {
            for (const auto& [name, x] : from) to[name].insert(to[name].end(), x.begin(), x.end());
        };
        for (const uint64_t seed : {5, 6, 7}) {
            Problem<double> exact(GetParam(), n, seed);
            Problem<float> plain(GetParam(), n, seed), fast(GetParam(), n, seed);
            exact.backward(false);
            plain.backward(true);
            fast.backward(false);
            append(truths, exact.grads);
            append(plains, plain.grads);
            append(fasts, fast.grads);
        }
        for (const auto& [name, truth] : truths) {
            const int64_t shape[] = {std::ssize(truth)};
            const auto c = testing::compare(fasts[name], plains[name], truth, shape);
            EXPECT_TRUE(c.ok) << n << " tokens, d" << name << ": " << c.message;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Linear, RecurrenceBackward, ::testing::ValuesIn(cases()),
                         [](const auto& of) { return of.param.name; });

Case pure_sum(float eps) {
    Case c{.name = "sum", .rec = {.key_dim = 7, .value_dim = 5, .n_queries = 2, .eps = eps}};
    c.rec.write = Write::exponential;
    c.rec.normaliser = Normaliser::sum;
    return c;
}

// From an empty state that nothing follows.
Problem<double> alone(const Case& c, int64_t n) {
    Problem<double> p(c, n, 9);
    for (const char* name : {"s", "n", "ds", "dn", "dm"}) std::ranges::fill(p.x[name], 0.0);
    p.x["m"] = {-std::numeric_limits<double>::infinity()};
    return p;
}

// One constant more in every exponent changes nothing that is divided by the sum: their gradients
// add up to 0, with the path of eps through the stabiliser as well.
TEST(RecurrenceBackwardOfSums, StrengthsHaveNoCommonMode) {
    for (const float eps : {1e-6f, 0.3f})
        for (const bool is_plain : {false, true}) {
            Problem<double> p = alone(pure_sum(eps), 53);
            p.backward(is_plain);
            double sum = 0, size = 0;
            for (const double dw : p.grads["w"]) sum += dw, size += std::fabs(dw);
            EXPECT_GT(size, 0.1);
            EXPECT_LE(std::fabs(sum), 1e-13 * size) << eps;
        }
}

// The law has to notice a backward that leaves out the denominator's gradient: that of the same
// sums with strengths e^w and no normaliser, handed dy / N.
TEST(RecurrenceBackwardOfSums, WithoutTheDenominatorsGradientTheLawFails) {
    Problem<double> p = alone(pure_sum(0), 21);
    p.x["m"] = {-30.0};  // a number, for the differences; the state is empty
    p.backward(false);
    EXPECT_LE(worst_error(p), 1e-6);

    Problem<double> bare = p;
    bare.rec.write = Write::plain;
    bare.rec.normaliser = Normaliser::none;
    for (const char* name : {"n", "m", "dn", "dm"}) bare.x.erase(name);
    for (double& w : bare.x["w"]) w = std::exp(w);
    double held_m = NAN;
    p.loss(held_m);
    bare.loss(held_m);
    const int64_t width = p.rec.n_queries * p.rec.value_dim;
    for (size_t i = 0; i < p.y.size(); ++i)
        if (static_cast<int64_t>(i) % (width + 5) < width) bare.x["dy"][i] *= p.y[i] / bare.y[i];
    bare.backward(false);
    for (size_t t = 0; t < bare.grads["w"].size(); ++t) bare.grads["w"][t] *= bare.x["w"][t];
    bare.grads["n"] = p.grads["n"];
    bare.grads["m"] = p.grads["m"];
    p.grads = bare.grads;
    EXPECT_GT(worst_error(p), 0.1);
    double sum = 0, size = 0;
    for (const double dw : p.grads["w"]) sum += dw, size += std::fabs(dw);
    EXPECT_GT(std::fabs(sum), 0.01 * size);
}

}  // namespace
}  // namespace bifocal::linear
