#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families/linear_layers.h"
#include "model/families/readers.h"

namespace bifocal {
namespace {

using json::Fields;

// Copies a field into `value` when it is there.
template <class T, class U>
Status read(Result<std::optional<T>> field, U& value) {
    if (!field.ok()) return std::move(field).error();
    if (*field) value = U(std::move(**field));
    return {};
}

// Two keys may say the same thing; they must not say different things.
Status read_both(const Fields& config, const char* old_key, const Fields& rope, const char* key,
                 double& value) {
    BIFOCAL_TRY(const std::optional<double> older, config.number(old_key));
    BIFOCAL_TRY(const std::optional<double> newer, rope.number(key));
    if (older && newer && *older != *newer && &config != &rope)
        return rope.error(key, "given twice with different values", fmt::format("{}", *older),
                          fmt::format("{}", *newer));
    if (older) value = *older;
    if (newer) value = *newer;
    return {};
}

struct RopeSource {
    const Fields& config;
    int64_t head_dim;
    int64_t context_length;
    int64_t tokens;
    double default_theta;
    double partial_rotary;
    const char* theta_key;  // at the top of older files
};

// `rope`: rope_parameters, one of its layer types, or the rope_scaling of older files.
Result<ops::RopeSpec> read_rope(const RopeSource& source, const Fields& rope) {
    ops::RopeSpec spec;
    spec.theta = source.default_theta;
    BIFOCAL_TRY_STATUS(read_both(source.config, source.theta_key, rope, "rope_theta", spec.theta));
    double partial = source.partial_rotary;
    BIFOCAL_TRY_STATUS(
        read_both(source.config, "partial_rotary_factor", rope, "partial_rotary_factor", partial));
    if (!(partial > 0 && partial <= 1))
        return rope.error("partial_rotary_factor", "bad value", "above 0, at most 1",
                          fmt::format("{}", partial));
    spec.rotary_dim = static_cast<int64_t>(static_cast<double>(source.head_dim) * partial);

    std::string type = "default";
    BIFOCAL_TRY_STATUS(read(rope.string("type"), type));
    BIFOCAL_TRY_STATUS(read(rope.string("rope_type"), type));
    if (type == "default") return spec;

    BIFOCAL_TRY(const std::optional<double> factor, rope.number("factor"));
    BIFOCAL_TRY_STATUS(read(rope.number("attention_factor"), spec.attention_factor.emplace(0)));
    if (*spec.attention_factor == 0) spec.attention_factor.reset();
    spec.original_context = static_cast<double>(source.context_length);
    const char* const original = "original_max_position_embeddings";  // without it, all of it
    BIFOCAL_TRY_STATUS(read_both(source.config, original, rope, original, spec.original_context));
    spec.factor =
        factor.value_or(static_cast<double>(source.context_length) / spec.original_context);

    if (type == "longrope" || type == "su") {
        spec.scaling = ops::RopeScaling::longrope;
        const bool is_long = static_cast<double>(source.tokens) > spec.original_context;
        const char* key = is_long ? "long_factor" : "short_factor";
        BIFOCAL_TRY(auto divisors, rope.numbers(key));
        if (!divisors) return rope.error(key, "missing");
        spec.divisors = std::move(*divisors);
        return spec;
    }
    if (type == "linear") {
        spec.scaling = ops::RopeScaling::linear;
    } else if (type == "llama3") {
        spec.scaling = ops::RopeScaling::llama3;
        BIFOCAL_TRY_STATUS(read(rope.number("low_freq_factor"), spec.low_freq_factor));
        BIFOCAL_TRY_STATUS(read(rope.number("high_freq_factor"), spec.high_freq_factor));
    } else if (type == "yarn") {
        spec.scaling = ops::RopeScaling::yarn;
        BIFOCAL_TRY_STATUS(read(rope.number("beta_fast"), spec.beta_fast));
        BIFOCAL_TRY_STATUS(read(rope.number("beta_slow"), spec.beta_slow));
        BIFOCAL_TRY_STATUS(read(rope.boolean("truncate"), spec.truncate));
        double mscale = 0, mscale_all = 0;
        BIFOCAL_TRY_STATUS(read(rope.number("mscale"), mscale));
        BIFOCAL_TRY_STATUS(read(rope.number("mscale_all_dim"), mscale_all));
        if (!spec.attention_factor && mscale > 0 && mscale_all > 0 && spec.factor > 1)
            spec.attention_factor = (0.1 * mscale * std::log(spec.factor) + 1) /
                                    (0.1 * mscale_all * std::log(spec.factor) + 1);
    } else {
        return rope.error("rope_type", "unsupported value",
                          "default, linear, llama3, yarn or longrope", type);
    }
    if (!factor) return rope.error("factor", "missing");
    return spec;
}

// What a file says twice, under its newer and its older name, must be the same.
Status check_agreement(const Fields& newer, const Fields& older) {
    for (const auto& [key, value] : older.json().items()) {
        const char* const name = key == "type" ? "rope_type" : key.c_str();
        const json::Json* other = newer.find(name);
        if (other && *other != value)
            return older.error(key, "differs from rope_parameters", json::to_text(*other),
                               json::to_text(value));
    }
    return {};
}

// rope_parameters (one set, or one per layer type) or, in older files, keys at the top and
// rope_scaling, which then concerns full layers when windowed ones have frequencies of their own.
Status read_ropes(const Family& family, const Fields& config, int64_t tokens, Hyperparameters& n) {
    RopeSource source{config,      n.head_dim,        n.context_length,
                      tokens,      family.rope_theta, family.partial_rotary,
                      "rope_theta"};
    BIFOCAL_TRY(const auto parameters, config.object("rope_parameters"));
    BIFOCAL_TRY(const auto scaling, config.object("rope_scaling"));
    if (parameters && scaling) BIFOCAL_TRY_STATUS(check_agreement(*parameters, *scaling));
    const Fields& rope = parameters ? *parameters : scaling ? *scaling : config;

    BIFOCAL_TRY(const auto full, rope.object("full_attention"));
    BIFOCAL_TRY(const auto windowed, rope.object("sliding_attention"));
    BIFOCAL_TRY(n.rope, read_rope(source, full ? *full : rope));
    n.window_rope = n.rope;
    if (family.rope_theta_window > 0) {
        source.default_theta = family.rope_theta_window;
        source.theta_key = "rope_local_base_freq";
        const json::Json nothing = json::Json::object();
        BIFOCAL_TRY(const Fields none, Fields::of(nothing, rope.where()));
        BIFOCAL_TRY(n.window_rope, read_rope(source, windowed ? *windowed : none));
    }
    return {};
}

// layer_types, or the family's pattern; and no_rope_layers.
Status read_layers(const Family& family, const Fields& config, Hyperparameters& n) {
    const auto one_each = [&](const char* key, size_t size) -> Status {
        if (static_cast<int64_t>(size) >= n.n_layers) return {};
        return config.error(key, "wrong length", fmt::format("{}", n.n_layers),
                            fmt::format("{}", size));
    };
    int64_t interval = family.no_rope_interval;
    if (interval > 0)
        BIFOCAL_TRY_STATUS(read(config.integer("no_rope_layer_interval", 1, kMaxLayers), interval));
    n.has_rope = rope_layers(n.n_layers, interval);
    BIFOCAL_TRY(const auto listed_rope, config.integers("no_rope_layers"));
    if (listed_rope && family.no_rope_interval > 0) {
        BIFOCAL_TRY_STATUS(one_each("no_rope_layers", listed_rope->size()));
        for (int64_t i = 0; i < n.n_layers; ++i) n.has_rope[i] = (*listed_rope)[i] != 0;
    }

    BIFOCAL_TRY_STATUS(read_linear_layers(family, config, n));
    if (n.linear.key_heads > 0) {
        n.is_windowed.assign(n.n_layers, false);
        return {};
    }

    n.window = family.window;
    if (family.window_rule == WindowRule::never) n.window = 0;
    BIFOCAL_TRY_STATUS(read(config.integer("sliding_window", 0, int64_t{1} << 40), n.window));
    bool is_used = true;
    const bool has_switch = family.window_rule == WindowRule::upper_layers ||
                            family.window_rule == WindowRule::nope_layers;
    if (has_switch) {
        is_used = false;
        BIFOCAL_TRY_STATUS(read(config.boolean("use_sliding_window"), is_used));
    }
    if (!is_used) n.window = 0;

    BIFOCAL_TRY(const auto types, config.strings("layer_types"));
    const bool may_be_linear = family.linear_rule == LinearRule::lightning;
    const bool every_softmax = family.window_rule == WindowRule::every_layer;
    if (may_be_linear && !types) return config.error("layer_types", "missing");
    const bool has_types = types && (may_be_linear || !every_softmax);
    if (!has_types) {
        int64_t pattern = family.window_pattern, upper = 28;
        BIFOCAL_TRY_STATUS(read(config.integer("sliding_window_pattern", 1, kMaxLayers), pattern));
        BIFOCAL_TRY_STATUS(read(config.integer("max_window_layers", 0, kMaxLayers), upper));
        n.is_windowed = windowed_layers(family, n, pattern, upper);
        return {};
    }
    BIFOCAL_TRY_STATUS(one_each("layer_types", types->size()));
    for (int64_t i = 0; i < n.n_layers; ++i) {
        const std::string& type = (*types)[i];
        const char* const other = may_be_linear ? "linear_attention" : "sliding_attention";
        if (type != "full_attention" && type != other)
            return config.error("layer_types", "unsupported value",
                                fmt::format("full_attention or {}", other), type);
        const bool is_full = type == "full_attention";
        if (may_be_linear) n.is_linear[i] = !is_full;
        n.is_windowed.push_back(may_be_linear ? is_full && n.window > 0 : !is_full);
    }
    return {};
}

// What layer_types calls linear_attention where that is lightning attention; its decays depend on
// the number of layers.
Status read_lightning(const Fields& config, Hyperparameters& n) {
    if (n.activation != "silu" && n.activation != "swish")
        return config.error("hidden_act", "unsupported value", "silu", n.activation);
    BIFOCAL_TRY(const auto rotary_dim, config.integer("rotary_dim"));
    if (rotary_dim && *rotary_dim != n.head_dim)
        return config.error("rotary_dim", "unsupported value", fmt::format("{}", n.head_dim),
                            fmt::format("{}", *rotary_dim));
    n.linear_mixer = {
        "linear",
        {{"rule", "lightning"}, {"slopes", "minimax"}, {"n_layers", n.n_layers}, {"packed", true}}};
    return {};
}

// x = alpha norm(x) + beta result, factors of 1 unless given.
Status read_residuals(const Fields& config, Hyperparameters& n) {
    for (auto [name, residual] :
         {std::pair{"full_attn", &n.softmax_residual}, std::pair{"linear_attn", &n.linear_residual},
          std::pair{"mlp", &n.ffn_residual}}) {
        double factors[] = {1, 1};
        for (auto [which, factor] :
             {std::pair{"alpha", &factors[0]}, std::pair{"beta", &factors[1]}}) {
            const std::string key = fmt::format("{}_{}_factor", name, which);
            BIFOCAL_TRY_STATUS(read(config.number(key), *factor));
            if (!std::isfinite(*factor))
                return config.error(key, "bad value", "a finite number",
                                    fmt::format("{}", *factor));
        }
        *residual = {static_cast<float>(factors[0]), static_cast<float>(factors[1])};
    }
    return {};
}

Status refuse_unsupported(const Fields& config) {
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
        if (config.has(key)) return config.error(key, "not supported", "null");
    bool both_ways = false;
    BIFOCAL_TRY_STATUS(read(config.boolean("use_bidirectional_attention"), both_ways));
    if (both_ways) return config.error("use_bidirectional_attention", "not supported", "false");
    return {};
}

Status read_stops(const Fields& config, std::vector<int32_t>& stops) {
    const json::Json* found = config.find("eos_token_id");
    if (!found) return {};
    std::vector<int64_t> ids(1);
    if (found->is_array())
        BIFOCAL_TRY_STATUS(read(config.integers("eos_token_id"), ids));
    else
        BIFOCAL_TRY_STATUS(read(config.integer("eos_token_id", 0, kMaxSize), ids[0]));
    for (const int64_t id : ids) {
        if (id < 0 || id >= kMaxSize)
            return config.error("eos_token_id", "bad value", fmt::format("0..{}", kMaxSize - 1),
                                fmt::format("{}", id));
        stops.push_back(static_cast<int32_t>(id));
    }
    return {};
}

Status read_sizes(const Family& family, const Fields& config, Hyperparameters& n) {
    const auto size = [&](const char* key, int64_t otherwise) -> Result<int64_t> {
        BIFOCAL_TRY(const auto value, config.integer(key, 1, kMaxSize));
        if (!value && otherwise < 1) return config.error(key, "missing");
        return value.value_or(otherwise);
    };
    BIFOCAL_TRY(n.n_layers, size("num_hidden_layers", 0));
    if (n.n_layers > kMaxLayers)
        return config.error("num_hidden_layers", "bad value", fmt::format("1..{}", kMaxLayers),
                            fmt::format("{}", n.n_layers));
    BIFOCAL_TRY(n.d_model, size("hidden_size", 0));
    BIFOCAL_TRY(n.vocab_size, size("vocab_size", family.vocab_size));
    const bool has_other_name =
        !config.has("max_position_embeddings") && config.has("model_max_length");
    BIFOCAL_TRY(n.context_length,
                size(has_other_name ? "model_max_length" : "max_position_embeddings",
                     family.context_length));
    BIFOCAL_TRY(const int64_t d_ff, size("intermediate_size", 0));
    BIFOCAL_TRY(const int64_t heads, size("num_attention_heads", family.n_heads));
    BIFOCAL_TRY(const int64_t kv_heads,
                size("num_key_value_heads", family.n_kv_heads ? family.n_kv_heads : heads));
    if (family.head_dim == 0 && n.d_model % heads != 0 && !config.has("head_dim"))
        return config.error("num_attention_heads", "does not divide hidden_size",
                            fmt::format("a divisor of {}", n.d_model), fmt::format("{}", heads));
    BIFOCAL_TRY(n.head_dim,
                size("head_dim", family.head_dim ? family.head_dim : n.d_model / heads));
    n.d_ff.assign(n.n_layers, d_ff);
    n.n_heads.assign(n.n_layers, heads);
    n.n_kv_heads.assign(n.n_layers, kv_heads);
    return {};
}

// Softmax layers whose keys and values come from latent rows; what else config.json says of heads
// is about other things.
Status read_latent_keys(const Fields& config, Hyperparameters& n) {
    LatentKeys& latent = n.latent.emplace();
    for (auto [key, value] :
         {std::pair{"kv_lora_rank", &latent.rank}, std::pair{"qk_nope_head_dim", &latent.own_dim},
          std::pair{"qk_rope_head_dim", &latent.shared_dim},
          std::pair{"v_head_dim", &latent.value_dim}}) {
        BIFOCAL_TRY(const auto given, config.integer(key, 1, kMaxSize));
        if (!given) return config.error(key, "missing");
        *value = *given;
    }
    n.head_dim = latent.own_dim + latent.shared_dim;
    if (n.n_kv_heads != n.n_heads)
        return config.error("num_key_value_heads", "differs from num_attention_heads",
                            fmt::format("{}", n.n_heads[0]), fmt::format("{}", n.n_kv_heads[0]));
    BIFOCAL_TRY(const auto q_rank, config.integer("q_lora_rank"));
    if (q_rank)
        return config.error("q_lora_rank", "not supported", "null", fmt::format("{}", *q_rank));
    bool has_bias = false, without_positions = true;
    BIFOCAL_TRY_STATUS(read(config.boolean("attention_bias"), has_bias));
    if (has_bias) return config.error("attention_bias", "not supported", "false", "true");
    BIFOCAL_TRY_STATUS(read(config.boolean("mla_use_nope"), without_positions));
    if (!without_positions) return config.error("mla_use_nope", "not supported", "true", "false");
    return {};
}

}  // namespace

Result<std::vector<int32_t>> stops_from_generation_config(const Fields& config) {
    std::vector<int32_t> stops;
    BIFOCAL_TRY_STATUS(read_stops(config, stops));
    return stops;
}

Result<ModelSpec> spec_from_hf(const Family& family, const Fields& config, int64_t tokens) {
    BIFOCAL_TRY_STATUS(refuse_unsupported(config));
    Hyperparameters n;
    n.where = config.where();
    BIFOCAL_TRY_STATUS(read_sizes(family, config, n));
    if (family.latent_keys) BIFOCAL_TRY_STATUS(read_latent_keys(config, n));
    n.norm_eps = family.norm_eps;
    BIFOCAL_TRY_STATUS(read(config.number("rms_norm_eps"), n.norm_eps));
    n.norm_offset = family.norm_offset;
    BIFOCAL_TRY_STATUS(read(config.number("rms_norm_offset"), n.norm_offset));
    if (n.norm_offset != 0 && n.norm_offset != 1)
        return config.error("rms_norm_offset", "bad value", "0 or 1",
                            fmt::format("{}", n.norm_offset));
    n.tied = family.tied;
    BIFOCAL_TRY_STATUS(read(config.boolean("tie_word_embeddings"), n.tied));
    n.activation = family.activation;
    BIFOCAL_TRY_STATUS(read(config.string("hidden_act"), n.activation));
    BIFOCAL_TRY_STATUS(read(config.string("hidden_activation"), n.activation));

    bool bias = false;
    BIFOCAL_TRY_STATUS(read(config.boolean("attention_bias"), bias));
    n.qkv_bias =
        family.qkv_bias == BiasRule::always || (family.qkv_bias == BiasRule::as_configured && bias);
    n.out_bias =
        family.out_bias == BiasRule::always || (family.out_bias == BiasRule::as_configured && bias);
    BIFOCAL_TRY_STATUS(read(config.boolean("mlp_bias"), n.mlp_bias));
    n.output_gate = family.output_gate;
    if (family.output_gate)
        BIFOCAL_TRY_STATUS(read(config.boolean("attn_output_gate"), n.output_gate));
    if (family.experts) {
        BIFOCAL_TRY(n.experts, experts_from_hf(*family.experts, config, n.n_layers));
    }
    if (family.attention_scalar > 0) {
        auto scalar = static_cast<double>(family.attention_scalar);
        BIFOCAL_TRY_STATUS(read(config.number("query_pre_attn_scalar"), scalar));
        if (!(scalar > 0))
            return config.error("query_pre_attn_scalar", "bad value", "above 0",
                                fmt::format("{}", scalar));
        n.attention_scale = 1 / std::sqrt(scalar);
    }
    BIFOCAL_TRY_STATUS(read_layers(family, config, n));
    if (family.linear_rule == LinearRule::lightning) BIFOCAL_TRY_STATUS(read_lightning(config, n));
    if (family.normed_residual) BIFOCAL_TRY_STATUS(read_residuals(config, n));
    BIFOCAL_TRY_STATUS(read_ropes(family, config, tokens > 0 ? tokens : n.context_length, n));
    BIFOCAL_TRY_STATUS(read_stops(config, n.stop_tokens));
    return make_model_spec(family, n);
}

}  // namespace bifocal
