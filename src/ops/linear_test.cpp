// Linear against a dense product in double of the dequantised weight, for every dtype, kernel
// family and shape; and the promise that a result has the same bits however it is computed.
#include "ops/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/dequant.h"
#include "core/testing/random_blocks.h"
#include "ops/testing/exec.h"

namespace bifocal::ops {
namespace {

constexpr DType kTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q4_0,
                            DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                            DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4};

std::vector<Isa> available_isas() {
    std::vector<Isa> isas;
    for (const Isa isa : kIsas) {
        if (isa_available(isa, cpu_features())) isas.push_back(isa);
    }
    return isas;
}

Tensor random_weight(DType dtype, int64_t n_out, int64_t n_in, std::mt19937_64& rng) {
    const auto bytes = testing::random_blocks(dtype, n_out * n_in, rng);
    std::byte* data = nullptr;
    Tensor weight = make_tensor(dtype, {n_out, n_in}, &data);
    std::memcpy(data, bytes.data(), bytes.size());
    return weight;
}

std::vector<float> random_floats(int64_t n, std::mt19937_64& rng) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = testing::random_unit(rng) * 3;
    return x;
}

// What the fast path multiplies: int8 codes of each block of 32 and their scale.
void round_to_int8_blocks(std::span<float> x) {
    for (size_t at = 0; at < x.size(); at += 32) {
        float top = 0;
        for (size_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(x[at + i]));
        const float d = top / 127.0f;
        for (size_t i = 0; i < 32; ++i) {
            x[at + i] = top == 0 ? 0.0f : std::nearbyint(x[at + i] * (127.0f / top)) * d;
        }
    }
}

struct Problem {
    int64_t n_rows, n_in, n_out;
    Tensor weight;
    std::vector<float> x, bias;

    Problem(DType dtype, int64_t t, int64_t in, int64_t out, uint64_t seed)
        : n_rows(t), n_in(in), n_out(out) {
        std::mt19937_64 rng(seed);
        weight = random_weight(dtype, out, in, rng);
        x = random_floats(t * in, rng);
        bias = random_floats(out, rng);
    }

    std::vector<float> run(const Linear& linear, int n_threads, int64_t first_row,
                           int64_t end_row) const {
        testing::ExecFor exec(n_threads, linear_workspace_bytes(end_row - first_row, n_in));
        std::vector<float> y(static_cast<size_t>((end_row - first_row) * n_out),
                             std::numeric_limits<float>::quiet_NaN());
        const View<const float, 2> view(x.data() + first_row * n_in, {end_row - first_row, n_in});
        const LinearCall call{&linear, View<float, 2>(y.data(), {end_row - first_row, n_out})};
        linear_forward(view, {&call, 1}, exec.exec);
        return y;
    }
};

// The one comparison rule: error against double at most twice that of the plain FP32 loop, plus a
// few ulps of the output's scale.
void expect_close(const Problem& p, Precision precision, const std::vector<float>& y,
                  const std::string& label) {
    std::vector<float> x = p.x;
    if (precision == Precision::fast && is_quantised(p.weight.dtype)) round_to_int8_blocks(x);
    std::vector<float> row(static_cast<size_t>(p.n_in));
    double worst_fast = 0, worst_plain = 0, scale = 0;
    for (int64_t o = 0; o < p.n_out; ++o) {
        dequantise_row(p.weight.dtype, p.weight.bytes.data() + o * p.weight.row_bytes(), row);
        for (int64_t t = 0; t < p.n_rows; ++t) {
            double exact = 0, size = 0;
            float plain = 0;
            for (int64_t k = 0; k < p.n_in; ++k) {
                const double term = static_cast<double>(row[k]) * x[t * p.n_in + k];
                exact += term;
                size += std::fabs(term);
                plain += row[k] * x[t * p.n_in + k];
            }
            exact += p.bias[o];
            plain += p.bias[o];
            const float got = y[t * p.n_out + o];
            ASSERT_TRUE(std::isfinite(got)) << label << " at [" << t << ", " << o << "]";
            worst_fast = std::max(worst_fast, std::fabs(got - exact));
            worst_plain = std::max(worst_plain, std::fabs(plain - exact));
            scale = std::max(scale, size);
        }
    }
    EXPECT_LE(worst_fast, 2 * worst_plain + 4 * 0x1p-24 * scale) << label;
}

Linear make(const Problem& p, Precision precision, Isa isa) {
    const Tensor bias = make_tensor_f32({p.n_out}, p.bias);
    auto linear = Linear::make("w", p.weight, &bias, precision, isa);
    EXPECT_TRUE(linear.ok()) << linear.error().message();
    return std::move(linear).value();
}

class LinearTypes : public ::testing::TestWithParam<DType> {};

TEST_P(LinearTypes, AgreesWithDoubleAndHasTheSameBitsOnEveryKernelFamily) {
    const int64_t block = dtype_info(GetParam()).block_elems;
    for (const Precision precision : {Precision::fast, Precision::exact}) {
        for (const int64_t n_rows : {1, 2, 7, 64, 113}) {
            const int64_t n_in = block == 1 ? 301 : block * (block == 256 ? 2 : 9);
            const Problem p(GetParam(), n_rows, n_in, 37, static_cast<uint64_t>(n_rows));
            std::vector<float> first;
            for (const Isa isa : available_isas()) {
                const std::string label = fmt::format(
                    "{} {} T={} {}", dtype_info(GetParam()).name,
                    precision == Precision::fast ? "fast" : "exact", n_rows, isa_name(isa));
                const auto y = p.run(make(p, precision, isa), 1, 0, n_rows);
                expect_close(p, precision, y, label);
                if (first.empty()) first = y;
                ASSERT_EQ(first, y) << label;
            }
        }
    }
}

TEST_P(LinearTypes, OneRowAtATimeAndAnyNumberOfThreadsGiveTheSameBits) {
    const int64_t n_in = 2 * std::max(dtype_info(GetParam()).block_elems, 160);
    const int64_t n_rows = 131;  // two batches of columns
    const Problem p(GetParam(), n_rows, n_in, 50, 5);
    for (const Precision precision : {Precision::fast, Precision::exact}) {
        const Linear linear = make(p, precision, available_isas().back());
        const auto whole = p.run(linear, 1, 0, n_rows);
        ASSERT_EQ(whole, p.run(linear, 2, 0, n_rows));
        ASSERT_EQ(whole, p.run(linear, 3, 0, n_rows));
        std::vector<float> pieces;
        for (int64_t t = 0; t < n_rows;) {
            const int64_t end = std::min(n_rows, t + (t < 40 ? 1 : 17));
            const auto y = p.run(linear, 2, t, end);
            pieces.insert(pieces.end(), y.begin(), y.end());
            t = end;
        }
        ASSERT_EQ(whole, pieces);
    }
}

INSTANTIATE_TEST_SUITE_P(All, LinearTypes, ::testing::ValuesIn(kTypes),
                         [](const auto& type) { return std::string(dtype_info(type.param).name); });

TEST(Linear, SeveralProductsShareOneInputAndAccumulate) {
    std::mt19937_64 rng(9);
    const auto x = random_floats(5 * 64, rng);
    const Tensor wq = random_weight(DType::q4_1, 33, 64, rng);
    const Tensor wk = random_weight(DType::f32, 17, 64, rng);
    const auto q = Linear::make("q", wq, nullptr, Precision::fast);
    const auto k = Linear::make("k", wk, nullptr, Precision::fast);
    ASSERT_TRUE(q.ok() && k.ok());
    testing::ExecFor exec(2, linear_workspace_bytes(5, 64));
    // q's rows are strided: the same memory holds other columns that must stay.
    std::vector<float> yq(5 * 40, 7.0f), yk(5 * 17, 1.0f), zk(5 * 17);
    const View<const float, 2> view(x.data(), {5, 64});
    const LinearCall calls[] = {
        {&*q, View<float, 2>(yq.data(), {5, 33}, {40, 1})},
        {&*k, View<float, 2>(yk.data(), {5, 17}), true},
        {&*k, View<float, 2>(zk.data(), {5, 17})},
    };
    linear_forward(view, calls, exec.exec);
    for (int64_t t = 0; t < 5; ++t) {
        for (int64_t i = 0; i < 17; ++i) EXPECT_EQ(yk[t * 17 + i], zk[t * 17 + i] + 1.0f);
        for (int64_t i = 33; i < 40; ++i) EXPECT_EQ(yq[t * 40 + i], 7.0f);
        EXPECT_NE(yq[t * 40 + 32], 7.0f);
    }
    EXPECT_EQ(exec.workspace.used(), 0u);
}

TEST(Linear, NaNAndInfinityInTheInputAreNotHidden) {
    for (const DType dtype : kTypes) {
        for (const Isa isa : available_isas()) {
            Problem p(dtype, 3, 256, 20, 3);
            p.x[256 + 37] = std::numeric_limits<float>::quiet_NaN();
            p.x[512 + 255] = std::numeric_limits<float>::infinity();
            const auto y = p.run(make(p, Precision::fast, isa), 1, 0, 3);
            for (int64_t o = 0; o < 20; ++o) {
                EXPECT_TRUE(std::isfinite(y[o])) << dtype_info(dtype).name;
                EXPECT_TRUE(std::isnan(y[20 + o])) << dtype_info(dtype).name;
                EXPECT_FALSE(std::isfinite(y[40 + o])) << dtype_info(dtype).name;
            }
        }
    }
}

TEST(Linear, ZeroAndTinyBlocksGiveZero) {
    for (const Isa isa : available_isas()) {
        Problem p(DType::q8_0, 1, 64, 20, 4);
        p.bias.assign(20, 0.0f);
        p.x.assign(64, 0.0f);
        p.x[3] = 0x1p-130f;
        for (const float y : p.run(make(p, Precision::fast, isa), 1, 0, 1)) EXPECT_EQ(y, 0.0f);
    }
}

TEST(Linear, RowsComeBackAsStored) {
    for (const DType dtype : kTypes) {
        const Problem p(dtype, 1, 512, 19, 11);
        const Linear linear = make(p, Precision::fast, Isa::portable);
        std::vector<float> expected(512), got(512);
        for (int64_t i = 0; i < 19; ++i) {
            dequantise_row(dtype, p.weight.bytes.data() + i * p.weight.row_bytes(), expected);
            linear.dequantise_row(i, got);
            ASSERT_EQ(expected, got) << dtype_info(dtype).name << " row " << i;
        }
    }
}

TEST(Linear, RefusesWhatDoesNotFit) {
    std::mt19937_64 rng(1);
    const auto message = [](const Tensor& weight, const Tensor* bias) {
        const auto linear = Linear::make("blk.0.attn_q.weight", weight, bias, Precision::fast);
        return linear.ok() ? std::string() : linear.error().message();
    };
    const auto has = [](std::string_view part) { return ::testing::HasSubstr(std::string(part)); };
    using ::testing::AllOf;
    Tensor weight = random_weight(DType::q4_1, 4, 64, rng);
    EXPECT_EQ(message(weight, nullptr), "");

    const Tensor bias = make_tensor_f32({5}, std::vector<float>(5));
    EXPECT_THAT(message(weight, &bias), AllOf(has("blk.0.attn_q.weight"), has("[4]"), has("[5]")));
    Tensor flat = weight;
    flat.shape = {256};
    EXPECT_THAT(message(flat, nullptr), has("[out, in]"));
    Tensor odd = weight;
    odd.shape = {8, 33};
    EXPECT_THAT(message(odd, nullptr), has("multiple of 32"));
    Tensor longer = weight;
    longer.shape = {5, 64};
    EXPECT_THAT(message(longer, nullptr), has("wrong number of bytes"));
    Tensor integers = weight;
    integers.dtype = DType::i32;
    EXPECT_THAT(message(integers, nullptr), has("unsupported weight type"));
}

}  // namespace
}  // namespace bifocal::ops
