#include "mixers/linear/rules/rules.h"

#include <fmt/format.h>

#include "mixers/shared/attention_core.h"

namespace bifocal::linear {

std::span<const Rule> rules() {
    static constexpr Rule kRules[] = {
        {"linear_attention", "sums of φ(k) vᵀ, divided by what φ(q) reads of φ(k)",
         fill_linear_attention},
        {"lightning", "a constant decay for each head, norm and gate", fill_lightning},
        {"mlstm", "scalar gates, exponential or sigmoid, with a normaliser", fill_mlstm},
        {"gla", "a decay for each channel", fill_gla},
        {"mamba2", "a step that decays and writes, convolutions, a skip", fill_mamba2},
        {"gdn", "gated delta rule", fill_gdn},
        {"kda", "delta rule with a decay for each channel", fill_kda},
        {"rwkv6", "RWKV-6: a decay for each channel, a bonus for the newest token, token shift",
         fill_rwkv6},
        {"rad_rwkv6", "RAD-RWKV6: the same without bonus, keys balanced by what is kept",
         fill_rad_rwkv6},
        {"liger", "softmax features, decays from the keys themselves", fill_liger},
        {"dijiang", "features of a cosine transform, a constant decay", fill_dijiang},
    };
    return kRules;
}

const Rule* find_rule(std::string_view name) {
    for (const Rule& rule : rules())
        if (rule.name == name) return &rule;
    return nullptr;
}

void read_rule(OptionReader& options, std::string_view option, LinearConfig& config,
               const LayerContext& layer) {
    std::vector<std::string_view> names;
    for (const Rule& rule : rules()) names.push_back(rule.name);
    if (const Rule* rule = find_rule(options.choice(option, names)))
        rule->fill(config, layer, options);
}

Result<LinearConfig> read_config(const MixerSpec& spec, const LayerContext& layer) {
    OptionReader options(spec);
    LinearConfig config;
    read_rule(options, "rule", config, layer);
    BIFOCAL_TRY(config.spec, options.finish());
    BIFOCAL_TRY_STATUS(check_fit(config));
    return config;
}

Status check_fit(const LinearConfig& config) {
    const auto unfit = [&](std::string what, std::string expected, int64_t got) {
        return Error{.what = std::move(what),
                     .expected = std::move(expected),
                     .got = fmt::format("{}", got),
                     .kind = ErrorKind::usage};
    };
    const int64_t states = config.n_states;
    for (const int64_t heads : {config.n_query, config.n_key, config.n_value})
        if (states % heads != 0 && heads % states != 0)
            return unfit("heads do not divide", fmt::format("a divisor or multiple of {}", states),
                         heads);
    if (config.head_dim > kMaxHeadDim)
        return unfit("heads too wide", fmt::format("at most {}", kMaxHeadDim), config.head_dim);
    if (config.feature_map == FeatureMap::hedgehog && config.key_dim() % 2 != 0)
        return unfit("hedgehog features come in pairs", "an even number", config.key_dim());
    return {};
}

void fill_retrofit(LinearConfig& config, const LayerContext& layer, OptionReader& options,
                   std::string_view state_heads) {
    options.require(check_own_keys(layer));
    const std::string states = options.choice("state_heads", state_heads, {"q", "kv"});
    config.n_query = layer.n_heads;
    config.n_key = config.n_value = layer.n_kv_heads;
    config.n_states = states == "q" ? layer.n_heads : layer.n_kv_heads;
    config.has_qkv_bias = layer.qkv_bias;
    config.head_dim = layer.head_dim;
    config.recurrence.key_dim = config.recurrence.value_dim = layer.head_dim;
    config.recurrence.n_queries = config.n_query / config.n_states;
}

void fill_output(LinearConfig& config, OutputNorm norm, std::string norm_name, OutputGate gate,
                 Projection gate_projection) {
    if (config.is_far) return;
    config.output_norm = norm;
    config.output_norm_name = std::move(norm_name);
    config.output_gate = gate;
    if (gate == OutputGate::none) return;
    config.gate_projection = std::move(gate_projection);
    config.gate_projection.n_out = config.n_out_heads() * config.value_dim();
}

}  // namespace bifocal::linear
