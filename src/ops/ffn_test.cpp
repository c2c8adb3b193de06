// FeedForward against the same sublayer in double.
#include "ops/ffn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "core/testing/random_blocks.h"
#include "ops/testing/exec.h"

namespace bifocal::ops {
namespace {

constexpr int64_t kModel = 48, kHidden = 80;

std::vector<float> random_floats(int64_t n, std::mt19937_64& rng) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = testing::random_unit(rng);
    return x;
}

struct Fixture {
    std::vector<float> norm, post, gate, up, down;
    FeedForward ffn;

    Fixture(Activation activation, bool with_post_norm, Precision precision) {
        std::mt19937_64 rng(3);
        norm = random_floats(kModel, rng);
        post = random_floats(kModel, rng);
        gate = random_floats(kHidden * kModel, rng);
        up = random_floats(kHidden * kModel, rng);
        down = random_floats(kModel * kHidden, rng);
        ffn.norm = norm;
        ffn.norm_eps = 1e-6f;
        ffn.activation = activation;
        ffn.gate = linear("gate", gate, kHidden, kModel, precision);
        ffn.up = linear("up", up, kHidden, kModel, precision);
        ffn.down = linear("down", down, kModel, kHidden, precision);
        if (with_post_norm) ffn.post_norm = post;
    }
    static Linear linear(const char* name, const std::vector<float>& w, int64_t n_out, int64_t n_in,
                         Precision precision) {
        auto made = Linear::make(name, make_tensor_f32({n_out, n_in}, w), nullptr, precision);
        EXPECT_TRUE(made.ok());
        return std::move(made).value();
    }

    static void norm_row(std::vector<double>& x, const std::vector<float>& w) {
        double sum = 0;
        for (const double v : x) sum += v * v;
        const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-6);
        for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * w[i];
    }
    static std::vector<double> times(const std::vector<float>& w, const std::vector<double>& x) {
        std::vector<double> y(w.size() / x.size());
        for (size_t o = 0; o < y.size(); ++o) {
            for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
        }
        return y;
    }
    std::vector<double> reference(const std::vector<float>& row) const {
        std::vector<double> x(row.begin(), row.end());
        norm_row(x, norm);
        auto a = times(gate, x);
        const auto b = times(up, x);
        for (size_t i = 0; i < a.size(); ++i) {
            const double cubic = a[i] + 0.044715 * a[i] * a[i] * a[i];
            const double act =
                ffn.activation == Activation::silu
                    ? a[i] / (1 + std::exp(-a[i]))
                    : 0.5 * a[i] * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * cubic));
            a[i] = act * b[i];
        }
        auto y = times(down, a);
        if (ffn.post_norm) norm_row(y, post);
        for (size_t i = 0; i < y.size(); ++i) y[i] += row[i];
        return y;
    }
};

TEST(FeedForward, AgreesWithDoubleAndAnySplitGivesTheSameBits) {
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
        for (const bool with_post_norm : {false, true}) {
            const Fixture f(activation, with_post_norm, Precision::exact);
            std::mt19937_64 rng(8);
            const int64_t n_rows = 21;
            const auto start = random_floats(n_rows * kModel, rng);

            auto whole = start;
            testing::ExecFor exec(2, f.ffn.workspace_bytes(n_rows));
            f.ffn.forward(View<float, 2>(whole.data(), {n_rows, kModel}), exec.exec);
            EXPECT_EQ(exec.workspace.used(), 0u);
            for (int64_t t = 0; t < n_rows; ++t) {
                const std::vector<float> row(start.begin() + t * kModel,
                                             start.begin() + (t + 1) * kModel);
                const auto expected = f.reference(row);
                for (int64_t i = 0; i < kModel; ++i) {
                    EXPECT_NEAR(whole[t * kModel + i], expected[i],
                                2e-5 * (1 + std::fabs(expected[i])));
                }
            }

            auto single = start;
            testing::ExecFor small(1, f.ffn.workspace_bytes(1));
            for (int64_t t = 0; t < n_rows; ++t) {
                f.ffn.forward(View<float, 2>(single.data() + t * kModel, {1, kModel}), small.exec);
            }
            EXPECT_EQ(whole, single);
        }
    }
}

}  // namespace
}  // namespace bifocal::ops
