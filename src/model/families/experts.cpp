#include "model/families/experts.h"

#include <fmt/format.h>

#include <algorithm>

namespace bifocal {

const ExpertFamily kGptOssExperts{
    .names = {.router = "mlp.router", .experts = "mlp.experts", .is_interleaved = true},
    .has_biases = true,
    .activation = ops::Activation::clamped_swiglu,
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
    .is_configurable = true,
};

namespace {

using json::Fields;

constexpr int64_t kMaxExperts = 65536;
constexpr int64_t kMaxWidth = int64_t{1} << 24;

// What the files need not say.
ExpertsSpec described(const ExpertFamily& family) {
    ExpertsSpec experts;
    experts.names = family.names;
    experts.has_biases = family.has_biases;
    if (family.activation) experts.activation = *family.activation;
    return experts;
}

Result<int64_t> required(const Fields& config, std::string_view key, int64_t max) {
    BIFOCAL_TRY(const auto value, config.integer(key, 1, max));
    if (!value) return config.error(key, "missing");
    return *value;
}

// Two names of one number.
Result<int64_t> expert_count(const Fields& config, int64_t least) {
    BIFOCAL_TRY(const auto count, config.integer("num_experts", least, kMaxExperts));
    BIFOCAL_TRY(const auto local, config.integer("num_local_experts", 1, kMaxExperts));
    if (count && local && *count != *local)
        return config.error("num_experts", "differs from num_local_experts",
                            fmt::format("{}", *local), fmt::format("{}", *count));
    if (!count && !local) return config.error("num_local_experts", "missing");
    return count ? *count : *local;
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
Result<std::vector<bool>> layers_with_experts(const Fields& config, int64_t n_layers) {
    BIFOCAL_TRY(const auto step, config.integer("decoder_sparse_step", 1, kMaxWidth));
    BIFOCAL_TRY(const auto listed, config.integers("mlp_only_layers"));
    std::vector<bool> have;
    for (int64_t i = 0; i < n_layers; ++i) {
        const bool is_listed = listed && std::ranges::find(*listed, i) != listed->end();
        have.push_back(!is_listed && (i + 1) % step.value_or(1) == 0);
    }
    return have;
}

}  // namespace

Result<LayerExperts> experts_from_hf(const ExpertFamily& family, const Fields& config,
                                     int64_t n_layers) {
    ExpertsSpec experts = described(family);
    std::vector<bool> have(static_cast<size_t>(n_layers), true);
    if (family.is_configurable) {
        BIFOCAL_TRY(have, layers_with_experts(config, n_layers));
    }
    BIFOCAL_TRY(experts.n_experts, expert_count(config, family.is_configurable ? 0 : 1));
    const bool any = std::ranges::find(have, true) != have.end();
    if (experts.n_experts == 0 || !any) return LayerExperts();  // what else it says means nothing
    BIFOCAL_TRY(experts.n_used, required(config, "num_experts_per_tok", kMaxExperts));
    if (experts.n_used > experts.n_experts)
        return config.error("num_experts_per_tok", "more experts for a token than there are",
                            fmt::format("at most {}", experts.n_experts),
                            fmt::format("{}", experts.n_used));
    BIFOCAL_TRY(experts.d_ff, required(config, family.width_key, kMaxWidth));
    if (family.activation == ops::Activation::clamped_swiglu)
        BIFOCAL_TRY_STATUS(check_activation(config));
    if (!family.is_configurable) return LayerExperts(static_cast<size_t>(n_layers), experts);

    BIFOCAL_TRY(const auto sums_to_one, config.boolean("norm_topk_prob"));
    experts.weighs_chosen = sums_to_one.value_or(true);
    BIFOCAL_TRY(const auto shared, config.integer("shared_expert_intermediate_size", 0, kMaxWidth));
    experts.d_ff_shared = shared.value_or(0);
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
    if (family.is_configurable && experts.n_experts == 0) return LayerExperts();
    for (const auto& [name, value] : {std::pair{"expert_count", experts.n_experts},
                                      std::pair{"expert_used_count", experts.n_used}})
        if (value == 0) return metadata.error(key(name), "the key is missing", "1 or more");
    BIFOCAL_TRY(experts.d_ff,
                metadata.get_integer(key("expert_feed_forward_length"), 1, kMaxWidth));
    if (family.is_configurable) {
        BIFOCAL_TRY(
            experts.d_ff_shared,
            metadata.get_integer_or(key("expert_shared_feed_forward_length"), 0, kMaxWidth, 0));
        BIFOCAL_TRY(experts.weighs_chosen, metadata.get_bool_or(key("expert_weights_norm"), true));
    }
    // 1: softmax; 3: softmax over the chosen, what weighs_chosen says.
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
