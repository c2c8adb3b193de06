// Subject: one contract case made real: a mixer with random weights, random input, and ways to run
// it under guard. Everything comes from seeds, so a failure repeats.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "core/buffer.h"
#include "core/quantise.h"
#include "core/rng.h"
#include "core/testing/compare.h"
#include "mixers/contract/contract_case.h"

namespace bifocal::contract {

// Bytes between two guard bands; `ok()` tells whether these are still whole.
class Guarded {
  public:
    explicit Guarded(size_t bytes) : buffer_(align_up(bytes) + 2 * kBand), bytes_(bytes) {
        std::memset(buffer_.data(), kPattern, buffer_.size());
        std::memset(data(), 0xff, bytes);  // NaN in every float type
    }
    std::byte* data() { return buffer_.data() + kBand; }
    const std::byte* data() const { return buffer_.data() + kBand; }
    std::span<const std::byte> bytes() const { return {data(), bytes_}; }
    bool ok() const {
        const auto whole = [&](size_t begin, size_t end) {
            return std::all_of(buffer_.data() + begin, buffer_.data() + end,
                               [](std::byte b) { return b == std::byte{kPattern}; });
        };
        return whole(0, kBand) && whole(kBand + bytes_, buffer_.size());
    }

  private:
    static constexpr size_t kBand = 4 * kAlignment;
    static constexpr uint8_t kPattern = 0xa5;
    Buffer buffer_;
    size_t bytes_;
};

// Floats of normal size: matrices keep the scale of their input, norms are near one.
inline WeightMap random_weights(const std::vector<WeightSpec>& specs, DType matrix_dtype,
                                uint64_t seed) {
    Rng rng{seed};
    WeightMap weights;
    for (const WeightSpec& spec : specs) {
        const int64_t n =
            std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>());
        const bool is_norm = spec.name.find("norm") != std::string::npos;
        const double size =
            spec.shape.size() > 1 ? 1 / std::sqrt(static_cast<double>(spec.shape.back())) : 0.3;
        std::vector<float> values(static_cast<size_t>(n));
        for (float& v : values) v = static_cast<float>((is_norm ? 1 : 0) + size * rng.normal());
        const DType dtype = spec.shape.size() > 1 ? matrix_dtype : DType::f32;
        std::byte* data = nullptr;
        Tensor tensor = make_tensor(dtype, spec.shape, &data);
        const std::vector<std::byte> bytes = quantise(dtype, values);
        std::memcpy(data, bytes.data(), bytes.size());
        weights.emplace(spec.name, std::move(tensor));
    }
    return weights;
}

// Rows [n, M] small enough that the mixer's own result, not the residual, sets the output's scale.
inline std::vector<float> random_rows(int64_t n, int64_t width, uint64_t seed) {
    Rng rng{seed};
    std::vector<float> x(static_cast<size_t>(n * width));
    for (float& v : x) v = static_cast<float>(0.1 * rng.normal());
    return x;
}

class Subject {
  public:
    explicit Subject(const ContractCase& c) : Subject(c, {}) {}
    // With these weights instead of random ones.
    Subject(const ContractCase& c, WeightMap weights) : case_(c), weights_(std::move(weights)) {
        auto made = make_mixer(c.spec, c.context);
        EXPECT_TRUE(made.ok()) << made.error().message();
        mixer_ = std::move(made).value();
        if (weights_.empty()) weights_ = random_weights(mixer_->weights(), c.weight_dtype, 11);
        const Status bound = mixer_->bind(weights_);
        EXPECT_TRUE(bound.ok()) << bound.error().message();
        layout_ = mixer_->state_layout(c.options);
    }

    const ContractCase& the_case() const { return case_; }
    const Mixer& mixer() const { return *mixer_; }
    const StateLayout& layout() const { return layout_; }
    const WeightMap& weights() const { return weights_; }
    int64_t width() const { return case_.context.d_model; }
    std::vector<float> rows(uint64_t seed = 5, int64_t n = -1) const {
        return random_rows(n < 0 ? case_.n_tokens : n, width(), seed);
    }

    std::unique_ptr<Guarded> fresh_state() const {
        auto state = std::make_unique<Guarded>(layout_.bytes);
        mixer_->init_state(layout_, state->data());
        return state;
    }

    // One call: x [B, T, M] goes through, in place. The workspace is exactly as large as declared
    // and full of NaNs.
    void call(std::span<float> x, std::span<const int64_t> pos, std::span<std::byte* const> states,
              int n_threads = 1) const {
        const auto B = static_cast<int64_t>(pos.size());
        const int64_t T = static_cast<int64_t>(x.size()) / (B * width());
        ThreadPool pool(n_threads);
        Workspace workspace(mixer_->workspace_bytes(layout_, B, T, n_threads));
        std::ranges::fill(workspace.bytes(), std::byte{0xff});  // there may be none
        Guarded guarded(x.size_bytes());
        std::memcpy(guarded.data(), x.data(), x.size_bytes());
        Exec exec{pool, workspace};
        mixer_->forward({View<float, 3>(reinterpret_cast<float*>(guarded.data()), {B, T, width()}),
                         pos, states, layout_},
                        exec);
        EXPECT_TRUE(guarded.ok()) << "written outside of x";
        EXPECT_EQ(workspace.used(), 0u);
        std::memcpy(x.data(), guarded.data(), x.size_bytes());
    }

    // A sequence's tokens at pos, pos + 1, ... in chunks of at most `chunk`; returns the outputs.
    std::vector<float> run(std::vector<float> x, int64_t chunk, Guarded& state, int64_t pos = 0,
                           int n_threads = 1) const {
        const int64_t n = static_cast<int64_t>(x.size()) / width();
        std::byte* const slot = state.data();
        for (int64_t t = 0; t < n; t += chunk) {
            const int64_t T = std::min(chunk, n - t);
            const int64_t at = pos + t;
            call(std::span(x).subspan(t * width(), T * width()), {&at, 1}, {&slot, 1}, n_threads);
        }
        EXPECT_TRUE(state.ok()) << "written outside of the state";
        return x;
    }
    std::vector<float> run(std::vector<float> x, int64_t chunk) const {
        return run(std::move(x), chunk, *fresh_state());
    }

    std::vector<double> reference(const std::vector<float>& x, Mixer::Real real) const {
        return apply(mixer_->reference(weights_, case_.options, real), x);
    }
    std::vector<double> recurrent_reference(const std::vector<float>& x) const {
        const auto forward = mixer_->recurrent_reference(weights_, case_.options);
        return forward ? apply(forward, x) : std::vector<double>{};
    }

    // The rule of docs/numerics.md against the double reference from a fresh state.
    testing::Comparison judge(const std::vector<float>& x, const std::vector<float>& y) const {
        if (judged_x_ != x) {
            judged_x_ = x;
            truth_ = reference(x, Mixer::Real::f64);
            const std::vector<double> plain = reference(x, Mixer::Real::f32);
            plain_.assign(plain.begin(), plain.end());
        }
        const int64_t shape[] = {static_cast<int64_t>(x.size()) / width(), width()};
        return testing::compare(y, plain_, truth_, shape, floor());
    }
    // A key that lies between two bf16 values may round either way in two good paths; one such
    // flip is half an ulp of bf16 in one of the many keys and values that make an output.
    testing::ErrorFloor floor() const {
        if (case_.options.kv_dtype == DType::bf16) return {.ulps = 0.25, .ulp = 0x1p-8};
        return {};
    }

  private:
    std::vector<double> apply(const ReferenceForward& forward, const std::vector<float>& x) const {
        std::vector<double> y(x.begin(), x.end());
        forward(View<double, 2>(y.data(), {static_cast<int64_t>(x.size()) / width(), width()}));
        return y;
    }

    ContractCase case_;
    WeightMap weights_;
    std::unique_ptr<Mixer> mixer_;
    StateLayout layout_;
    mutable std::vector<float> judged_x_, plain_;
    mutable std::vector<double> truth_;
};

inline ::testing::AssertionResult is_good(const testing::Comparison& comparison) {
    if (comparison.ok) return ::testing::AssertionSuccess() << comparison.message;
    return ::testing::AssertionFailure() << comparison.message;
}

// Bit by bit; names the first row that differs.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b,
                                            int64_t width) {
    if (a.size() != b.size()) {
        return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
    }
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
        return ::testing::AssertionFailure()
               << "differ first at row " << static_cast<int64_t>(i) / width << ", column "
               << static_cast<int64_t>(i) % width << ": " << a[i] << " and " << b[i];
    }
    return ::testing::AssertionSuccess();
}

// Laws that every case of every mixer is held to.
class MixerContract : public ::testing::TestWithParam<ContractCase> {
  protected:
    Subject subject_{GetParam()};
};

// Laws that take long, or that one case of a mixer settles: for cases with runs_long.
class LongMixerContract : public MixerContract {};

}  // namespace bifocal::contract
