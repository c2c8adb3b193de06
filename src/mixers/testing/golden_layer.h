// Layers of other people's code, as JSON that scripts in tools/golden write: sizes, weights, input
// and what came out, all in FP32; and ways to run ours on the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "mixers/mixer.h"

namespace bifocal::testing {

// Of the largest value: two FP32 paths that sum in different orders.
inline constexpr double kGoldenTolerance = 2e-5;

template <class R>
std::vector<R> golden_numbers(const nlohmann::json& json) {
    // Through float, so that double and float paths get the same inputs.
    const auto values = json.get<std::vector<float>>();
    return {values.begin(), values.end()};
}

// The largest difference over the largest expected value; what a report of the test shows.
template <class X>
double golden_distance(const std::vector<X>& x, const std::vector<float>& expected) {
    if (x.size() != expected.size()) return std::numeric_limits<double>::infinity();
    double worst = 0, scale = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double apart = std::fabs(static_cast<double>(x[i]) - expected[i]);
        if (!(apart <= worst)) worst = apart;  // a NaN stays
        scale = std::max(scale, std::fabs(static_cast<double>(expected[i])));
    }
    return worst / scale;
}

// What all layers are told.
inline LayerContext golden_context(const nlohmann::json& layer) {
    LayerContext context;
    context.layer = layer["layer"];
    context.d_model = layer["d_model"];
    context.n_heads = layer["n_heads"];
    context.n_kv_heads = layer["n_kv_heads"];
    context.head_dim = layer["head_dim"];
    context.scale = layer.value("scale", 1 / std::sqrt(static_cast<float>(context.head_dim)));
    context.norm_eps = layer["norm_eps"];
    context.precision = Precision::exact;
    return context;
}

class GoldenLayer {
  public:
    GoldenLayer(const nlohmann::json& golden, const MixerSpec& spec, const LayerContext& context)
        : golden_(golden), width_(context.d_model) {
        auto made = make_mixer(spec, context);
        EXPECT_TRUE(made.ok()) << made.error().message();
        mixer_ = std::move(made).value();
        for (const auto& [name, weight] : golden["weights"].items())
            weights_.emplace(name, tensor_of(weight, golden_numbers<float>(weight["values"])));
        x_ = golden_numbers<float>(golden["x"]);
        expected_ = golden_numbers<float>(golden["y"]);
    }

    // judge(distance, what) for every form of the layer: chunks of all sizes, both references.
    template <class Judge>
    void every_form(Judge judge) {
        std::set<std::string> asked, given;
        for (const WeightSpec& spec : mixer_->weights()) asked.insert(spec.name);
        for (const auto& [name, weight] : weights_) given.insert(name);
        ASSERT_EQ(asked, given);
        const Status bound = mixer_->bind(weights_);
        ASSERT_TRUE(bound.ok()) << bound.error().message();
        judge(apart(run(int64_t{1} << 20)), "one_chunk");
        judge(apart(run(7)), "chunks_of_7");
        judge(apart(run(1)), "token_by_token");
        judge(apart(run(mixer_->reference(weights_, kOptions, Mixer::Real::f64))), "reference");
        judge(apart_with(weights_), "recurrent_reference");
    }

    // Each weight has a part in the result that the comparison sees: far(distance, name) with a
    // third of its values moved a little, not all of them, since a norm may not see what all share.
    template <class Far>
    void with_other_weights(Far far) const {
        for (const auto& [name, weight] : golden_["weights"].items()) {
            auto values = golden_numbers<float>(weight["values"]);
            for (size_t i = 0; i < values.size(); i += 3) values[i] += 0.01f;
            WeightMap other = weights_;
            other[name] = tensor_of(weight, values);
            far(apart_with(other), name);
        }
    }

  private:
    static constexpr StateOptions kOptions{.capacity = 128, .kv_dtype = DType::f32};

    static Tensor tensor_of(const nlohmann::json& weight, const std::vector<float>& values) {
        return make_tensor_f32(weight["shape"].get<std::vector<int64_t>>(), values);
    }
    double apart_with(const WeightMap& weights) const {
        const ReferenceForward recurrent = mixer_->recurrent_reference(weights, kOptions);
        EXPECT_TRUE(recurrent);
        return apart(run(recurrent));
    }
    template <class X>
    double apart(const std::vector<X>& y) const {
        return golden_distance(y, expected_);
    }

    // The sublayer's own result, without the residual stream it was added to.
    template <class X>
    std::vector<X> without_residual(std::vector<X> y) const {
        for (size_t i = 0; i < y.size(); ++i) y[i] -= static_cast<X>(x_[i]);
        return y;
    }
    std::vector<float> run(int64_t chunk) const {
        const StateLayout layout = mixer_->state_layout(kOptions);
        Buffer state(layout.bytes);
        mixer_->init_state(layout, state.data());
        std::byte* const slot = state.data();
        std::vector<float> x = x_;
        const int64_t n = std::ssize(x) / width_;
        for (int64_t t = 0; t < n; t += chunk) {
            const int64_t T = std::min(chunk, n - t);
            ThreadPool pool(1);
            Workspace workspace(mixer_->workspace_bytes(layout, 1, T, 1));
            Exec exec{pool, workspace};
            const View<float, 3> rows(x.data() + t * width_, {1, T, width_});
            mixer_->forward({rows, {&t, 1}, {&slot, 1}, layout}, exec);
        }
        return without_residual(std::move(x));
    }
    std::vector<double> run(const ReferenceForward& forward) const {
        std::vector<double> x(x_.begin(), x_.end());
        forward(View<double, 2>(x.data(), {std::ssize(x) / width_, width_}));
        return without_residual(std::move(x));
    }

    nlohmann::json golden_;
    int64_t width_;
    std::unique_ptr<Mixer> mixer_;
    WeightMap weights_;
    std::vector<float> x_, expected_;
};

}  // namespace bifocal::testing
