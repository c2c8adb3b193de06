#include "model/families/experts.h"

#include <fmt/format.h>

#include <algorithm>

namespace bifocal {

const ExpertFamily kGptOssExperts{
    .names = {.router = "mlp.router", .experts = "mlp.experts", .is_interleaved = true},
    .has_biases = true,
    .activation = ops::Activation::clamped_swiglu,
};
const ExpertFamily kKimiExperts{
    .names = {.router = "block_sparse_moe.gate",
              .correction = "block_sparse_moe.gate.e_score_correction_bias",
              .experts = "block_sparse_moe.experts",
              .gate = "w1",
              .up = "w3",
              .down = "w2",
              .shared = "block_sparse_moe.shared_experts"},
    .width_key = "moe_intermediate_size",
    .keys = ExpertKeys::kimi,
};
const ExpertFamily kMixtralExperts{
    .names = {.router = "block_sparse_moe.gate",
              .experts = "block_sparse_moe.experts",
              .gate = "w1",
              .up = "w3",
              .down = "w2"},
};
const ExpertFamily kQwenExperts{
    .names = {.router = "mlp.gate",
              .experts = "mlp.experts",
              .shared = "mlp.shared_expert",
              .shared_gate = "mlp.shared_expert_gate"},
    .width_key = "moe_intermediate_size",
    .keys = ExpertKeys::qwen,
};

namespace {

using json::Fields;

constexpr int64_t kMaxExperts = 65536;
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr double kMaxScale = 1e6;  // of weights

// What the files need not say.
ExpertsSpec described(const ExpertFamily& family) {
    ExpertsSpec experts;
    experts.names = family.names;
    experts.has_biases = family.has_biases;
    if (family.activation) experts.activation = *family.activation;
    return experts;
}

// What goes by two names: as `read` finds it under either.
template <class Read>
auto either(const Fields& config, std::string_view name, std::string_view other, Read read)
    -> decltype(read(name)) {
    BIFOCAL_TRY(const auto value, read(name));
    BIFOCAL_TRY(const auto same, read(other));
    if (value && same && *value != *same)
        return config.error(name, fmt::format("differs from {}", other), fmt::format("{}", *same),
                            fmt::format("{}", *value));
    return value ? value : same;
}

Result<std::optional<int64_t>> either(const Fields& config, std::string_view name,
                                      std::string_view other, int64_t min, int64_t max) {
    return either(config, name, other,
                  [&](std::string_view key) { return config.integer(key, min, max); });
}

// The numbers inside gpt-oss's activation, which are part of the kernel.
Status check_activation(const Fields& config) {
    for (const auto& [key, known] :
         {std::pair{"swiglu_limit", 7.0}, std::pair{"swiglu_alpha", 1.702}}) {
        BIFOCAL_TRY(const auto given, config.number(key));
        if (given && *given != known)
            return config.error(key, "unsupported value", fmt::format("{}", known),
                                fmt::format("{}", *given));
    }
    return {};
}

// Layer i has experts iff (i + 1) is a multiple of decoder_sparse_step and mlp_only_layers does not
// list it.
Result<std::vector<bool>> qwen_layers(const Fields& config, int64_t n_layers) {
    BIFOCAL_TRY(const auto step, config.integer("decoder_sparse_step", 1, kMaxWidth));
    BIFOCAL_TRY(const auto listed, config.integers("mlp_only_layers"));
    std::vector<bool> have;
    for (int64_t i = 0; i < n_layers; ++i) {
        const bool is_listed = listed && std::ranges::find(*listed, i) != listed->end();
        have.push_back(!is_listed && (i + 1) % step.value_or(1) == 0);
    }
    return have;
}

// Layer i has experts iff i >= first_k_dense_replace and i is a multiple of moe_layer_freq, or iff
// mlp_layer_types calls it sparse.
Result<std::vector<bool>> kimi_layers(const Fields& config, int64_t n_layers) {
    BIFOCAL_TRY(const auto first, config.integer("first_k_dense_replace", 0, kMaxWidth));
    BIFOCAL_TRY(const auto step, config.integer("moe_layer_freq", 1, kMaxWidth));
    BIFOCAL_TRY(const auto types, config.strings("mlp_layer_types"));
    if (!first && !types) return config.error("first_k_dense_replace", "missing");
    if (types && std::ssize(*types) != n_layers)
        return config.error("mlp_layer_types", "wrong length", fmt::format("{}", n_layers),
                            fmt::format("{}", types->size()));
    std::vector<bool> have;
    for (int64_t i = 0; i < n_layers; ++i) {
        const bool by_rule = i >= first.value_or(0) && i % step.value_or(1) == 0;
        have.push_back(by_rule);
        if (!types) continue;
        const std::string& type = (*types)[static_cast<size_t>(i)];
        if (type != "dense" && type != "sparse")
            return config.error("mlp_layer_types", "unsupported value", "dense or sparse", type);
        have.back() = type == "sparse";
        if (first ? have.back() != by_rule : have.back() && !by_rule)
            return config.error(
                "mlp_layer_types",
                fmt::format("disagrees with first_k_dense_replace or moe_layer_freq on layer {}",
                            i),
                by_rule ? "sparse" : "dense", type);
    }
    return have;
}

Status read_qwen(const Fields& config, ExpertsSpec& experts) {
    BIFOCAL_TRY(const auto sums_to_one, config.boolean("norm_topk_prob"));
    experts.gating.sums_to_one = sums_to_one.value_or(true);
    BIFOCAL_TRY(const auto shared, config.integer("shared_expert_intermediate_size", 0, kMaxWidth));
    experts.d_ff_shared = shared.value_or(0);
    return {};
}

Status read_kimi_groups(const Fields& config, ExpertsSpec& experts) {
    ops::Gating& gating = experts.gating;
    BIFOCAL_TRY(const auto groups,
                either(config, "num_expert_group", "n_group", 1, experts.n_experts));
    gating.n_groups = groups.value_or(1);
    BIFOCAL_TRY(const auto used, config.integer("topk_group", 1, gating.n_groups));
    gating.n_groups_used = used.value_or(1);
    BIFOCAL_TRY(const auto is_grouped, config.boolean("use_grouped_topk"));
    if (gating.n_groups == 1) return {};
    if (!is_grouped.value_or(true))
        return config.error("use_grouped_topk", "unsupported value for several groups", "true",
                            "false");
    const int64_t size = experts.n_experts / gating.n_groups;
    if (size < 2 || size * gating.n_groups != experts.n_experts)
        return config.error("num_expert_group", "experts do not fill groups of two or more",
                            fmt::format("a divisor of {}", experts.n_experts),
                            fmt::format("{}", gating.n_groups));
    if (experts.n_used > size * gating.n_groups_used)
        return config.error("topk_group", "groups with fewer experts than a token goes through",
                            fmt::format("{} experts", experts.n_used),
                            fmt::format("{}", size * gating.n_groups_used));
    return {};
}

// A key may be missing only if all readers of such files take the same for it.
Status read_kimi(const Fields& config, ExpertsSpec& experts) {
    ops::Gating& gating = experts.gating;
    gating.scores = ops::Gating::Scores::sigmoid;
    BIFOCAL_TRY(const auto scores, config.string("moe_router_activation_func"));
    if (scores && *scores != "sigmoid")
        return config.error("moe_router_activation_func", "unsupported value", "sigmoid", *scores);
    BIFOCAL_TRY(const auto sums_to_one,
                either(config, "moe_renormalize", "norm_topk_prob",
                       [&](std::string_view key) { return config.boolean(key); }));
    gating.sums_to_one = sums_to_one.value_or(true);
    BIFOCAL_TRY(const auto scale, config.number("routed_scaling_factor"));
    if (!scale) return config.error("routed_scaling_factor", "missing");
    if (!(*scale > 0 && *scale <= kMaxScale))
        return config.error("routed_scaling_factor", "the value is out of range",
                            fmt::format("above 0, at most {}", kMaxScale),
                            fmt::format("{}", *scale));
    gating.scale = static_cast<float>(*scale);
    BIFOCAL_TRY_STATUS(read_kimi_groups(config, experts));
    BIFOCAL_TRY(const auto shared, either(config, "num_shared_experts", "n_shared_experts", 0,
                                          kMaxWidth / experts.d_ff));
    if (!shared) return config.error("num_shared_experts", "missing");
    experts.d_ff_shared = *shared * experts.d_ff;
    return {};
}

Result<std::vector<bool>> layers_with_experts(ExpertKeys keys, const Fields& config,
                                              int64_t n_layers) {
    switch (keys) {
        case ExpertKeys::none:
            break;
        case ExpertKeys::qwen:
            return qwen_layers(config, n_layers);
        case ExpertKeys::kimi:
            return kimi_layers(config, n_layers);
    }
    return std::vector<bool>(static_cast<size_t>(n_layers), true);
}

}  // namespace

Result<LayerExperts> experts_from_hf(const ExpertFamily& family, const Fields& config,
                                     int64_t n_layers) {
    ExpertsSpec experts = described(family);
    const int64_t least = family.keys == ExpertKeys::none ? 1 : 0;
    BIFOCAL_TRY(const auto count,
                either(config, "num_experts", "num_local_experts", least, kMaxExperts));
    if (!count) return config.error("num_local_experts", "missing");
    experts.n_experts = *count;
    if (experts.n_experts == 0) return LayerExperts();  // what else it says means nothing
    BIFOCAL_TRY(const std::vector<bool> have, layers_with_experts(family.keys, config, n_layers));
    if (std::ranges::find(have, true) == have.end()) return LayerExperts();  // neither here
    BIFOCAL_TRY(const auto used,
                either(config, "num_experts_per_tok", "num_experts_per_token", 1, kMaxExperts));
    if (!used) return config.error("num_experts_per_tok", "missing");
    experts.n_used = *used;
    if (experts.n_used > experts.n_experts)
        return config.error("num_experts_per_tok", "more experts for a token than there are",
                            fmt::format("at most {}", experts.n_experts),
                            fmt::format("{}", experts.n_used));
    BIFOCAL_TRY(const auto width, config.integer(family.width_key, 1, kMaxWidth));
    if (!width) return config.error(family.width_key, "missing");
    experts.d_ff = *width;
    if (family.activation == ops::Activation::clamped_swiglu)
        BIFOCAL_TRY_STATUS(check_activation(config));
    if (family.keys == ExpertKeys::qwen) BIFOCAL_TRY_STATUS(read_qwen(config, experts));
    if (family.keys == ExpertKeys::kimi) BIFOCAL_TRY_STATUS(read_kimi(config, experts));
    LayerExperts layers;
    for (const bool has : have) layers.push_back(has ? std::optional(experts) : std::nullopt);
    return layers;
}

Result<LayerExperts> experts_from_gguf(const ExpertFamily& family, const gguf::Metadata& metadata,
                                       const gguf::Hparams& stated) {
    const auto key = [&](std::string_view name) {
        return fmt::format("{}.{}", stated.architecture, name);
    };
    ExpertsSpec experts = described(family);
    experts.n_experts = stated.expert_count;
    experts.n_used = stated.expert_used_count;
    const bool is_configurable = family.keys == ExpertKeys::qwen;
    if (is_configurable && experts.n_experts == 0) return LayerExperts();
    for (const auto& [name, value] : {std::pair{"expert_count", experts.n_experts},
                                      std::pair{"expert_used_count", experts.n_used}})
        if (value == 0) return metadata.error(key(name), "the key is missing", "1 or more");
    BIFOCAL_TRY(experts.d_ff,
                metadata.get_integer(key("expert_feed_forward_length"), 1, kMaxWidth));
    if (is_configurable) {
        BIFOCAL_TRY(
            experts.d_ff_shared,
            metadata.get_integer_or(key("expert_shared_feed_forward_length"), 0, kMaxWidth, 0));
        BIFOCAL_TRY(experts.gating.sums_to_one,
                    metadata.get_bool_or(key("expert_weights_norm"), true));
    }
    // 1: softmax; 3: softmax over the chosen, what sums_to_one says.
    BIFOCAL_TRY(const int64_t gating,
                metadata.get_integer_or(key("expert_gating_func"), 0, 255, 1));
    if (gating != 1 && gating != 3)
        return metadata.error(key("expert_gating_func"), "unsupported value", "1 or 3",
                              fmt::format("{}", gating));
    BIFOCAL_TRY(const float scale, metadata.get_f32_or(key("expert_weights_scale"), 1.0f));
    if (scale != 1 && scale != 0)  // 0 says that there is none
        return metadata.error(key("expert_weights_scale"), "unsupported value", "1",
                              fmt::format("{}", scale));
    return LayerExperts(static_cast<size_t>(stated.block_count), experts);
}

}  // namespace bifocal
