// Experts against the same sum in double, and the promise that a token's result has the same bits
// whatever is computed beside it.
#include "ops/moe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "core/dequant.h"
#include "core/testing/random_blocks.h"
#include "ops/ffn.h"
#include "ops/testing/exec.h"
#include "ops/testing/gating.h"

namespace bifocal::ops {
namespace {

struct Setup {
    DType dtype = DType::f32;
    Precision precision = Precision::exact;
    int64_t n_experts = 7, n_used = 3, d_model = 24, d_ff = 40, d_ff_shared = 0;
    bool has_bias = false, has_correction = false, shared_is_gated = true;
    Gating gating = {};
    Activation activation = Activation::silu;
};

// A product with its weights in double beside it.
struct Product {
    std::vector<double> weight, bias;
    Linear linear;

    Product(int64_t n_out, int64_t n_in, const Setup& s, DType dtype, std::mt19937_64& rng) {
        const std::vector<std::byte> bytes = testing::random_blocks(dtype, n_out * n_in, rng);
        std::byte* data = nullptr;
        const Tensor tensor = make_tensor(dtype, {n_out, n_in}, &data);
        std::memcpy(data, bytes.data(), bytes.size());
        std::vector<float> values(static_cast<size_t>(n_out * n_in));
        dequantise_row(dtype, bytes.data(), values);
        weight.assign(values.begin(), values.end());
        std::vector<float> added(static_cast<size_t>(n_out));
        for (float& v : added) v = testing::random_unit(rng);
        const Tensor bias_tensor = make_tensor_f32({n_out}, added);
        bias.assign(static_cast<size_t>(n_out), 0);
        if (s.has_bias) bias.assign(added.begin(), added.end());
        linear = Linear::make("product", tensor, s.has_bias ? &bias_tensor : nullptr, s.precision)
                     .value();
    }
    // `rounds`: through int8 blocks of 32, as the fast path does before quantised weights.
    std::vector<double> of(std::vector<double> x, bool rounds = false) const {
        for (size_t b = 0; rounds && b < x.size(); b += 32) {
            double top = 0;
            for (size_t i = b; i < b + 32; ++i) top = std::max(top, std::fabs(x[i]));
            for (size_t i = b; top > 0 && i < b + 32; ++i)
                x[i] = std::nearbyint(x[i] * 127 / top) * (top / 127);
        }
        std::vector<double> y = bias;
        for (size_t o = 0; o < y.size(); ++o)
            for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
        return y;
    }
};

struct ReferenceExpert {
    Product gate, up, down;

    ReferenceExpert(const Setup& s, int64_t F, std::mt19937_64& rng)
        : gate(F, s.d_model, s, s.dtype, rng),
          up(F, s.d_model, s, s.dtype, rng),
          down(s.d_model, F, s, s.dtype, rng) {}
    std::vector<double> of(const std::vector<double>& x, Activation activation, bool rounds) const {
        std::vector<double> a = gate.of(x, rounds);
        const std::vector<double> b = up.of(x, rounds);
        for (size_t i = 0; i < a.size(); ++i) {
            if (activation == Activation::silu) {
                a[i] = a[i] / (1 + std::exp(-a[i])) * b[i];
                continue;
            }
            const double g = std::min(a[i], 7.0);
            a[i] = g / (1 + std::exp(-1.702 * g)) * (std::clamp(b[i], -7.0, 7.0) + 1);
        }
        return down.of(a, rounds);
    }
    Expert take() { return {std::move(gate.linear), std::move(up.linear), std::move(down.linear)}; }
};

struct Reference {
    Setup setup;
    std::mt19937_64 rng{5};
    Product router;
    std::vector<ReferenceExpert> experts;
    std::optional<ReferenceExpert> shared;
    std::optional<Product> shared_gate;
    std::vector<float> correction;

    explicit Reference(const Setup& s)
        : setup(s), router(s.n_experts, s.d_model, s, DType::f32, rng) {
        for (int64_t e = 0; e < s.n_experts; ++e) experts.emplace_back(s, s.d_ff, rng);
        if (s.has_correction) correction.resize(experts.size());
        for (float& v : correction) v = testing::random_unit(rng);
        if (s.d_ff_shared == 0) return;
        shared.emplace(s, s.d_ff_shared, rng);
        if (s.shared_is_gated) shared_gate.emplace(1, s.d_model, s, DType::f32, rng);
    }

    // What experts add to a row.
    std::vector<double> of(const float* row, bool rounds = false) const {
        const std::vector<double> x(row, row + setup.d_model);
        const std::vector<double> weights =
            testing::reference_weights(setup.gating, setup.n_used, router.of(x), correction);
        std::vector<double> y(x.size());
        const auto add = [&](double weight, const std::vector<double>& term) {
            for (size_t i = 0; i < y.size(); ++i) y[i] += weight * term[i];
        };
        for (size_t e = 0; e < experts.size(); ++e)
            if (weights[e] > 0) add(weights[e], experts[e].of(x, setup.activation, rounds));
        if (shared) {
            const double open = shared_gate ? 1 / (1 + std::exp(-shared_gate->of(x)[0])) : 1;
            add(open, shared->of(x, setup.activation, rounds));
        }
        return y;
    }

    // Once; of() needs only what stays.
    Experts take() {
        Experts moe;
        moe.router = std::move(router.linear);
        for (ReferenceExpert& expert : experts) moe.experts.push_back(expert.take());
        moe.n_used = setup.n_used;
        moe.gating = setup.gating;
        moe.correction = correction;
        moe.activation = setup.activation;
        if (shared) moe.shared = SharedExpert{shared->take()};
        if (shared_gate) moe.shared->gate = std::move(shared_gate->linear);
        return moe;
    }
};

std::vector<float> run(const Experts& moe, const float* x, int64_t n_rows, int n_threads) {
    const int64_t M = moe.router.n_in();
    std::vector<float> y(static_cast<size_t>(n_rows * M), 0.5f);
    testing::ExecFor exec(n_threads, moe.workspace_bytes(n_rows));
    moe.forward(View<const float, 2>(x, {n_rows, M}), View<float, 2>(y.data(), {n_rows, M}),
                exec.exec);
    EXPECT_EQ(exec.workspace.used(), 0u);
    return y;
}

// Against double, by the rule of docs/numerics.md where activations are rounded; and any split, any
// number of threads, the same bits.
void judge(const Setup& setup) {
    Reference reference(setup);
    constexpr int64_t kRows = 21;
    const int64_t M = setup.d_model;
    std::vector<float> x(static_cast<size_t>(kRows * M));
    for (float& v : x) v = 2 * testing::random_unit(reference.rng);
    std::vector<double> expected;
    double scale = 0, plain_error = 0;
    for (int64_t t = 0; t < kRows; ++t) {
        const std::vector<double> row = reference.of(&x[t * M]);
        const std::vector<double> plain =
            reference.of(&x[t * M], setup.precision == Precision::fast);
        for (int64_t m = 0; m < M; ++m) {
            scale = std::max(scale, std::fabs(row[m]));
            plain_error = std::max(plain_error, std::fabs(plain[m] - row[m]));
        }
        expected.insert(expected.end(), row.begin(), row.end());
    }

    const Experts moe = reference.take();
    const std::vector<float> whole = run(moe, x.data(), kRows, 2);
    for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(whole[i], 0.5 + expected[i], 2 * plain_error + 2e-6 * scale) << i;
    for (const int64_t step : {1, 2, 8}) {
        for (int64_t t = 0; t < kRows; t += step) {
            const int64_t n = std::min(step, kRows - t);
            const std::vector<float> part = run(moe, &x[t * M], n, 1);
            ASSERT_EQ(part, std::vector<float>(whole.begin() + t * M, whole.begin() + (t + n) * M))
                << "rows from " << t << ", " << step << " at once";
        }
    }
}

TEST(Experts, WeighTheChosenAlone) {
    judge({});
}
TEST(Experts, WeighByTheSoftmaxOverAll) {
    judge({.gating = {.sums_to_one = false}});
}
TEST(Experts, WeighBySigmoidsOfCorrectedRanks) {
    judge({.has_correction = true, .gating = {.scores = Gating::Scores::sigmoid, .scale = 2.446f}});
}
TEST(Experts, OfTheBestGroups) {
    judge({.n_experts = 8,
           .has_correction = true,
           .gating = {.scores = Gating::Scores::sigmoid, .n_groups = 4, .n_groups_used = 2}});
}
TEST(Experts, BiasesAndClampedSwiglu) {
    judge({.has_bias = true, .activation = Activation::clamped_swiglu});
}
TEST(Experts, ASharedOneBesides) {
    judge({.d_ff_shared = 17});
    judge({.d_ff_shared = 64});
    judge({.d_ff_shared = 64, .shared_is_gated = false});
}
TEST(Experts, OneOrAllOfThem) {
    judge({.n_used = 1});
    judge({.n_used = 7, .gating = {.sums_to_one = false}});
}
TEST(Experts, ManyNarrowOnes) {
    judge({.n_experts = 100, .d_model = 8, .d_ff = 8});
}
TEST(Experts, EveryStoredType) {
    for (const DType dtype :
         {DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
          DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4}) {
        SCOPED_TRACE(dtype_info(dtype).name);
        const int64_t block = dtype_info(dtype).block_elems;
        const int64_t size = block == 256 ? 256 : 64;
        judge({.dtype = dtype, .d_model = size, .d_ff = 2 * size});
    }
}
TEST(Experts, Int8Activations) {
    for (const DType dtype : {DType::q8_0, DType::mxfp4})
        judge({.dtype = dtype,
               .precision = Precision::fast,
               .d_model = 64,
               .d_ff = 96,
               .d_ff_shared = 32,
               .has_bias = true,
               .activation = Activation::clamped_swiglu});
}

// The sublayer around them: x = stream · norm(x) + branch · experts(norm(x)).
TEST(Experts, InASublayerThatCarriesItsNormedInput) {
    Reference reference({.d_ff_shared = 17});
    constexpr int64_t kRows = 5, M = 24;
    FeedForward ffn;
    for (int64_t m = 0; m < M; ++m)
        ffn.norm.push_back(1 + 0.3f * testing::random_unit(reference.rng));
    std::vector<float> x(kRows * M);
    for (float& v : x) v = 2 * testing::random_unit(reference.rng);
    std::vector<double> expected(x.size());
    for (const bool is_carried : {false, true}) {
        for (int64_t t = 0; t < kRows; ++t) {
            double sum = 0;
            for (int64_t m = 0; m < M; ++m) sum += static_cast<double>(x[t * M + m]) * x[t * M + m];
            std::vector<float> normed(M);
            for (int64_t m = 0; m < M; ++m)
                normed[m] =
                    static_cast<float>(x[t * M + m] / std::sqrt(sum / M + 1e-5) * ffn.norm[m]);
            const std::vector<double> y = reference.of(normed.data());
            for (int64_t m = 0; m < M; ++m)
                expected[t * M + m] =
                    is_carried ? 1.5 * normed[m] + 0.25 * y[m] : x[t * M + m] + y[m];
        }
        if (!ffn.experts) ffn.experts = std::make_unique<Experts>(reference.take());
        if (is_carried) ffn.residual = NormedResidual{1.5f, 0.25f};
        std::vector<float> got = x;
        testing::ExecFor exec(1, ffn.workspace_bytes(kRows));
        ffn.forward(View<float, 2>(got.data(), {kRows, M}), exec.exec);
        for (size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::fabs(expected[i])));
    }
}

}  // namespace
}  // namespace bifocal::ops
