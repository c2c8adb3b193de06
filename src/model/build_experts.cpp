#include "model/build_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/dequant.h"
#include "model/stored_experts.h"

namespace bifocal {
namespace {

using Part = StoredExperts::Part;
constexpr std::string_view kPartNames[] = {"gate", "up", "down"};

struct ExpertBuilder {
    const StoredExperts& stored;
    Precision precision;
    int64_t layer;
    LayerInfo& info;

    Result<ops::Linear> linear(const std::string& name, const Tensor& weight, const Tensor& bias) {
        return ops::Linear::make(fmt::format("layers.{}.{}", layer, name), weight,
                                 bias.bytes.empty() ? nullptr : &bias, precision);
    }

    // weight(part), bias(part)
    template <class Weight, class Bias>
    Result<ops::Expert> expert(const std::string& name, Weight weight, Bias bias) {
        ops::Expert made;
        for (auto [part, made_part] :
             {std::pair{StoredExperts::gate, &made.gate}, std::pair{StoredExperts::up, &made.up},
              std::pair{StoredExperts::down, &made.down}}) {
            BIFOCAL_TRY(*made_part, linear(fmt::format("{}.{}", name, kPartNames[part]),
                                           weight(part), bias(part)));
        }
        return made;
    }

    void note(const std::string& name, const ops::Linear& product) {
        std::string text = fmt::format("{}: {}", name, product.kernel());
        if (std::ranges::find(info.choices, text) == info.choices.end())
            info.choices.push_back(std::move(text));
    }
    // A line for each projection; `n`: how many there are of it, 0: one.
    void note(const std::string& name, const ops::Expert& expert, int64_t n) {
        for (const auto& [part, product] :
             {std::pair{0, &expert.gate}, std::pair{1, &expert.up}, std::pair{2, &expert.down}}) {
            info.weights.push_back(fmt::format(
                "{}.{} {} [{}{}, {}]", name, kPartNames[part], dtype_info(product->dtype()).name,
                n > 0 ? fmt::format("{}, ", n) : "", product->n_out(), product->n_in()));
            note(name, *product);
        }
    }
};

}  // namespace

Result<std::unique_ptr<ops::Experts>> build_experts(const ModelSpec& spec, WeightFinder& finder,
                                                    Precision precision, int64_t layer,
                                                    LayerInfo& info) {
    const ExpertsSpec& experts = *spec.layers[layer].experts;
    BIFOCAL_TRY(const StoredExperts stored, StoredExperts::find(finder, spec, layer));
    ExpertBuilder builder{stored, precision, layer, info};
    auto made = std::make_unique<ops::Experts>();
    made->n_used = experts.n_used;
    made->gating = experts.gating;
    made->activation = experts.activation;

    BIFOCAL_TRY(made->router, builder.linear("router", stored.router(), stored.router_bias()));
    info.weights.push_back(fmt::format("router {} [{}]", dtype_info(stored.router().dtype).name,
                                       fmt::join(stored.router().shape, ", ")));
    builder.note("router", made->router);
    if (const Tensor& correction = stored.correction(); !correction.bytes.empty()) {
        made->correction.resize(static_cast<size_t>(experts.n_experts));
        dequantise_row(correction.dtype, correction.bytes.data(), made->correction);
        info.weights.push_back(fmt::format("router_correction {} [{}]",
                                           dtype_info(correction.dtype).name, experts.n_experts));
    }
    for (int64_t e = 0; e < experts.n_experts; ++e) {
        BIFOCAL_TRY(ops::Expert expert, builder.expert(
                                            fmt::format("experts.{}", e),
                                            [&](Part part) { return stored.weight(part, e); },
                                            [&](Part part) { return stored.bias(part, e); }));
        made->experts.push_back(std::move(expert));
    }
    builder.note("experts", made->experts[0], experts.n_experts);
    if (experts.d_ff_shared > 0) {
        ops::SharedExpert shared;
        BIFOCAL_TRY(shared.expert,
                    builder.expert(
                        "shared_expert", [&](Part part) { return stored.shared_weight(part); },
                        [](Part) { return Tensor{}; }));
        if (!stored.shared_gate().bytes.empty()) {
            BIFOCAL_TRY(shared.gate,
                        builder.linear("shared_expert_gate", stored.shared_gate(), {}));
        }
        builder.note("shared_expert", shared.expert, 0);
        made->shared = std::move(shared);
    }
    info.weight_bytes += made->weight_bytes();
    return made;
}

}  // namespace bifocal
