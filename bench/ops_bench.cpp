// Linear layers in the shapes of SmolLM2-135M (30 layers and the head), for each weight type: one
// pass at T = 1 against the read bandwidth measured beside it at the same working set, and at
// T = 256 in operations a second (an add and a multiply are two), beside what the processor can do
// when it does nothing else; then the small ops. One JSON line each; figures are medians.
// usage: ops_bench [TYPE...]   (default: all types)
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/bandwidth.h"
#include "core/testing/random_blocks.h"
#include "ops/ffn.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/sampling.h"
#include "ops/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace bifocal;
using namespace bifocal::ops;

namespace {

double now() {
    const auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(t).count();
}

// Seconds of one call: median over about `seconds` of calls, at least 5.
template <class F>
double median_time(double seconds, F f) {
    f();
    std::vector<double> times;
    const double end = now() + seconds;
    while (times.size() < 5 || now() < end) {
        const double start = now();
        f();
        times.push_back(now() - start);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// Int8 operations a second of all threads, from registers only; 0 where we do not know how.
#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) int spin_vnni(int n) {
    __m512i sums[12];
    for (__m512i& sum : sums) sum = _mm512_setzero_si512();
    const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-2);
    for (int i = 0; i < n; ++i) {
#pragma GCC unroll 12
        for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
    }
    int lanes[16], total = 0;
    for (const __m512i& sum : sums) {
        _mm512_storeu_si512(lanes, sum);
        total += lanes[0];
    }
    return total;
}
double int8_peak(ThreadPool& pool) {
    if (active_isa() != Isa::avx512_vnni) return 0;
    constexpr int kSteps = 20000;
    std::vector<int> sink(static_cast<size_t>(pool.size()) * 4);
    const double time = median_time(0.2, [&] {
        pool.parallel_for(static_cast<int64_t>(sink.size()), 1,
                          [&](int64_t i, int64_t, int) { sink[i] = spin_vnni(kSteps); });
    });
    return static_cast<double>(sink.size()) * kSteps * 12 * 128 / time;
}
#else
double int8_peak(ThreadPool&) {
    return 0;
}
#endif

Linear random_linear(DType dtype, int64_t n_out, int64_t n_in, std::mt19937_64& rng) {
    std::byte* data = nullptr;
    Tensor weight = make_tensor(dtype, {n_out, n_in}, &data);
    const auto row = testing::random_blocks(dtype, n_in, rng);
    for (int64_t i = 0; i < n_out; ++i) {
        std::copy(row.begin(), row.end(), data + i * weight.row_bytes());
    }
    auto linear = Linear::make("w", weight, nullptr, Precision::fast);
    if (!linear.ok()) {
        fmt::print(stderr, "{}\n", linear.error().message());
        std::exit(1);
    }
    return std::move(linear).value();
}

// The products of one forward pass, in order.
struct Model {
    int64_t d = 576, d_kv = 192, d_ff = 1536, vocab = 49152;
    struct Layer {
        Linear q, k, v, o, gate, up, down;
    };
    std::vector<Layer> layers;
    Linear head;

    // Super-block types do not divide 576: 512 and 1536 stand in.
    Model(DType dtype, DType head_dtype, std::mt19937_64& rng) {
        if (dtype_info(dtype).block_elems == 256) d = 512;
        for (int i = 0; i < 30; ++i) {
            layers.push_back({random_linear(dtype, d, d, rng), random_linear(dtype, d_kv, d, rng),
                              random_linear(dtype, d_kv, d, rng), random_linear(dtype, d, d, rng),
                              random_linear(dtype, d_ff, d, rng),
                              random_linear(dtype, d_ff, d, rng),
                              random_linear(dtype, d, d_ff, rng)});
        }
        head = random_linear(head_dtype, vocab, d, rng);
    }
    template <class F>
    void each(F f) const {
        for (const Layer& l : layers) {
            for (const Linear* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) f(*w);
        }
    }
    int64_t layer_bytes() const {
        int64_t n = 0;
        each([&](const Linear& w) { n += w.weight_bytes(); });
        return n;
    }
    double layer_ops() const {  // per row of x
        double n = 0;
        each([&](const Linear& w) { n += 2.0 * static_cast<double>(w.n_in() * w.n_out()); });
        return n;
    }

    void run_layers(int64_t n_rows, std::vector<float>& scratch, Exec& exec) const {
        const auto at = [&](int64_t offset, int64_t n) {
            return View<float, 2>(scratch.data() + n_rows * offset, {n_rows, n});
        };
        const auto x = at(0, d), a = at(d, d), b = at(2 * d, d_ff), c = at(2 * d + d_ff, d_ff);
        for (const Layer& l : layers) {
            const LinearCall qkv[] = {
                {&l.q, a}, {&l.k, at(2 * d, d_kv)}, {&l.v, at(2 * d + d_ff, d_kv)}};
            linear_forward(x, qkv, exec);
            const LinearCall o[] = {{&l.o, a}};
            linear_forward(x, o, exec);
            const LinearCall up[] = {{&l.gate, b}, {&l.up, c}};
            linear_forward(x, up, exec);
            const LinearCall down[] = {{&l.down, a}};
            linear_forward(b, down, exec);
        }
    }
};

void bench_type(DType dtype, ThreadPool& pool) {
    std::mt19937_64 rng(1);
    const double start = now();
    const Model model(dtype, dtype == DType::q4_1 ? DType::q8_0 : dtype, rng);
    const double load_s = now() - start;
    const int64_t kRows = 256;
    std::vector<float> scratch(static_cast<size_t>(kRows * (2 * model.d + 2 * model.d_ff)));
    for (float& x : scratch) x = testing::random_unit(rng);
    std::vector<float> logits(static_cast<size_t>(model.vocab));
    Workspace workspace(linear_workspace_bytes(kRows, model.d_ff));
    Exec exec{pool, workspace};

    const std::string name(dtype_info(dtype).name);
    const auto bytes = static_cast<double>(model.layer_bytes() + model.head.weight_bytes());
    const auto bandwidth = measure_read_bandwidth(static_cast<size_t>(bytes), 0.3, pool);
    const auto head = [&] {
        const LinearCall call{&model.head, View<float, 2>(logits.data(), {1, model.vocab})};
        linear_forward(View<const float, 2>(scratch.data(), {1, model.d}), {&call, 1}, exec);
    };
    const double token_s = median_time(0.7, [&] {
        model.run_layers(1, scratch, exec);
        head();
    });
    const double rate = bytes / token_s / 1e9;
    fmt::print(R"({{"case":"linear_decode","type":"{}","kernel":"{}","threads":{},"mb":{:.1f},)"
               R"("us":{:.0f},"tok_per_s":{:.0f},"gb_per_s":{:.1f},"measured_read":{:.1f},)"
               R"("share":{:.2f},"load_s":{:.2f}}})"
               "\n",
               name, isa_name(active_isa()), pool.size(), bytes / 1e6, token_s * 1e6, 1 / token_s,
               rate, bandwidth.median_gb_per_s, rate / bandwidth.median_gb_per_s, load_s);
    const double prompt_s = median_time(0.7, [&] { model.run_layers(kRows, scratch, exec); });
    const double peak = int8_peak(pool);
    const double ops = model.layer_ops() * static_cast<double>(kRows) / prompt_s;
    fmt::print(R"({{"case":"linear_prompt","type":"{}","kernel":"{}","threads":{},"rows":{},)"
               R"("ms":{:.2f},"tok_per_s":{:.0f},"gop_per_s":{:.0f},"int8_peak_gop_per_s":{:.0f}}})"
               "\n",
               name, isa_name(active_isa()), pool.size(), kRows, prompt_s * 1e3,
               static_cast<double>(kRows) / prompt_s, ops / 1e9, peak / 1e9);
    std::fflush(stdout);
}

void bench_small(ThreadPool& pool) {
    std::mt19937_64 rng(2);
    std::vector<float> x(49152), y(49152), z(49152);
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] = y[i] = testing::random_unit(rng);
        z[i] = testing::random_unit(rng);
    }
    const auto line = [&](std::string_view name, double seconds) {
        fmt::print(R"({{"case":"{}","kernel":"{}","threads":{},"us":{:.3f}}})"
                   "\n",
                   name, isa_name(active_isa()), pool.size(), seconds * 1e6);
    };
    const int n = 1000;
    const auto each = [&](auto f) {
        return median_time(0.05,
                           [&] {
                               for (int i = 0; i < n; ++i) f(i);
                           }) /
               n;
    };
    float sink = 0;
    const std::vector<float> ones(1536, 1.0f);
    const std::span<float> a(x.data(), 576), b(y.data(), 576);
    std::vector<uint16_t> half(64);
    to_bf16(std::span<const float>(x.data(), 64), half.data());
    line("fork_join", each([&](int) { pool.parallel_for(8, 1, [](int64_t, int64_t, int) {}); }));
    line("rms_norm_576", each([&](int) { rms_norm_row(a, a, 1e-5f, b); }));
    line("silu_mul_1536", each([&](int) {
             gated_activation(Activation::silu, {z.data(), 1536}, ones);
         }));
    line("dot_bf16_64", each([&](int) { sink += dot({x.data(), 64}, half.data()); }));
    line("axpy_bf16_64", each([&](int) { axpy(1e-9f, half.data(), {x.data(), 64}); }));
    line("exp_sum_512", each([&](int) { sink += exp_sum({z.data(), 512}, 0.0f); }));
    line("argmax_49152", median_time(0.05, [&] { sink += static_cast<float>(argmax(x)); }));
    Sampler sampler(SamplingOptions{});
    line("sample_49152", median_time(0.1, [&] { sink += static_cast<float>(sampler.sample(y)); }));
    if (sink == 12345.0f) fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<DType> types{DType::q4_1, DType::q4_0,  DType::q5_0, DType::q5_1,
                             DType::q8_0, DType::mxfp4, DType::q4_k, DType::q5_k,
                             DType::q6_k, DType::bf16,  DType::f16,  DType::f32};
    if (argc > 1) types.clear();
    bool small = argc == 1;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]) == "small") {
            small = true;
            continue;
        }
        const auto dtype = dtype_from_name(argv[i]);
        if (!dtype || !is_real(*dtype)) {
            fmt::print(stderr, "unknown weight type '{}'\n", argv[i]);
            return 2;
        }
        types.push_back(*dtype);
    }
    ThreadPool pool;
    for (const DType dtype : types) bench_type(dtype, pool);
    if (small) bench_small(pool);
}
