#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dequant.h"
#include "formats/gguf/hparams.h"
#include "model/families/linear_layers.h"
#include "model/families/readers.h"

namespace bifocal {
namespace {

// Reads "ARCHITECTURE.key".
struct Keys {
    const gguf::Metadata& metadata;
    std::string architecture;

    std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture, key); }
    bool has(std::string_view key) const { return metadata.has(full(key)); }
    Result<int64_t> size(std::string_view key, int64_t otherwise) const {
        if (otherwise > 0) return metadata.get_integer_or(full(key), 1, kMaxSize, otherwise);
        return metadata.get_integer(full(key), 1, kMaxSize);
    }
    Result<double> number(std::string_view key, double otherwise) const {
        BIFOCAL_TRY(const float value,
                    metadata.get_f32_or(full(key), static_cast<float>(otherwise)));
        if (!std::isfinite(value) || value < 0)
            return metadata.error(full(key), "bad value", "a finite number",
                                  fmt::format("{}", value));
        return has(key) ? static_cast<double>(value) : otherwise;
    }
};

// What would change the logits and is not implemented.
Status refuse_unsupported(const Family& family, const Keys& keys) {
    for (const std::string_view key :
         {"attn_logit_softcapping", "final_logit_softcapping", "expert_count"}) {
        if (!keys.has(key) || (key == "expert_count" && family.experts)) continue;
        const gguf::Value* value = keys.metadata.find(keys.full(key));
        const auto* real = std::get_if<double>(&value->held);
        if ((real && *real == 0) || value->as_integer() == 0) continue;
        return keys.metadata.error(keys.full(key), "not supported in this architecture");
    }
    return {};
}

Result<std::vector<double>> factors(const Checkpoint& checkpoint, const char* name) {
    std::vector<double> values;
    const auto found = checkpoint.tensors.find(name);
    if (found == checkpoint.tensors.end()) return values;
    const Tensor& tensor = found->second;
    if (tensor.shape.size() != 1 || tensor.dtype != DType::f32)
        return Error{.what = "bad frequency factors",
                     .where = fmt::format("{}, tensor '{}'", checkpoint.where, name),
                     .expected = "one dimension of f32"};
    std::vector<float> stored(static_cast<size_t>(tensor.elems()));
    std::memcpy(stored.data(), tensor.bytes.data(), tensor.bytes.size());
    values.assign(stored.begin(), stored.end());
    return values;
}

Result<ops::RopeSpec> rope(const Family& family, const Keys& keys, const Checkpoint& checkpoint,
                           const gguf::Hparams& stated, int64_t tokens) {
    ops::RopeSpec rope;
    rope.rotary_dim = stated.rope_dimension_count;
    if (family.gguf_paired_qk && rope.rotary_dim != stated.key_length)
        return keys.metadata.error(keys.full("rope.dimension_count"), "bad value",
                                   fmt::format("the head size, {}", stated.key_length),
                                   fmt::format("{}", rope.rotary_dim));
    rope.theta = static_cast<double>(stated.rope_freq_base);
    BIFOCAL_TRY(const double scale_linear, keys.number("rope.scale_linear", 1.0));
    BIFOCAL_TRY(rope.factor, keys.number("rope.scaling.factor", scale_linear));
    BIFOCAL_TRY(const std::string scaling,
                keys.metadata.get_string_or(keys.full("rope.scaling.type"),
                                            rope.factor > 1 ? "linear" : "none"));
    BIFOCAL_TRY(const int64_t original,
                keys.size("rope.scaling.original_context_length", stated.context_length));
    rope.original_context = static_cast<double>(original);
    BIFOCAL_TRY(const double attention_factor, keys.number("rope.scaling.attn_factor", 0));

    BIFOCAL_TRY(rope.divisors, factors(checkpoint, "rope_freqs.weight"));
    BIFOCAL_TRY(std::vector<double> long_factors, factors(checkpoint, "rope_factors_long.weight"));
    BIFOCAL_TRY(std::vector<double> short_factors,
                factors(checkpoint, "rope_factors_short.weight"));
    if (scaling == "longrope" || !long_factors.empty()) {
        rope.scaling = ops::RopeScaling::longrope;
        rope.factor = static_cast<double>(stated.context_length) / rope.original_context;
        if (attention_factor > 0) rope.attention_factor = attention_factor;
        rope.divisors = (tokens > 0 ? tokens : stated.context_length) > original
                            ? std::move(long_factors)
                            : std::move(short_factors);
    } else if (scaling == "linear") {
        rope.scaling = ops::RopeScaling::linear;
    } else if (scaling == "yarn") {
        rope.scaling = ops::RopeScaling::yarn;
        rope.truncate = family.gguf_yarn_truncates;
        BIFOCAL_TRY(rope.beta_fast, keys.number("rope.scaling.yarn_beta_fast", rope.beta_fast));
        BIFOCAL_TRY(rope.beta_slow, keys.number("rope.scaling.yarn_beta_slow", rope.beta_slow));
        // The file's factor multiplies the usual one.
        if (attention_factor > 0 && rope.factor > 1)
            rope.attention_factor = attention_factor * (0.1 * std::log(rope.factor) + 1.0);
    } else if (scaling != "none") {
        return keys.metadata.error(keys.full("rope.scaling.type"), "unsupported value",
                                   "none, linear, yarn or longrope", scaling);
    }
    return rope;
}

// Which layers have the window: a list of them, or every n-th, or the family's own pattern.
Status read_windows(const Family& family, const Keys& keys, Hyperparameters& n) {
    const std::string key = keys.full("attention.sliding_window_pattern");
    const gguf::Value* pattern = keys.metadata.find(key);
    if (pattern && pattern->type == gguf::ValueType::array) {
        BIFOCAL_TRY(n.is_windowed, keys.metadata.get_array<bool>(key));
        if (static_cast<int64_t>(n.is_windowed.size()) != n.n_layers)
            return keys.metadata.error(key, "wrong length", fmt::format("{}", n.n_layers),
                                       fmt::format("{}", n.is_windowed.size()));
        if (n.window == 0) n.is_windowed.assign(n.n_layers, false);
        return {};
    }
    BIFOCAL_TRY(const int64_t every,
                keys.metadata.get_integer_or(key, 0, kMaxLayers, family.window_pattern));
    n.is_windowed = windowed_layers(family, n, every, 0);
    return {};
}

}  // namespace

Result<ModelSpec> spec_from_gguf(const Family& family, const gguf::File& file,
                                 const Checkpoint& checkpoint, int64_t tokens) {
    const gguf::Metadata& metadata = file.metadata();
    const Keys keys{metadata, std::string(family.gguf_architecture)};
    BIFOCAL_TRY_STATUS(refuse_unsupported(family, keys));
    BIFOCAL_TRY(const gguf::Hparams stated, gguf::check_hparams(file));
    const auto has_tensor = [&](std::string_view name) {
        return checkpoint.tensors.contains(name);
    };

    Hyperparameters n;
    n.where = metadata.source();
    n.vocab_size = stated.vocab_size;
    n.d_model = stated.embedding_length;
    // The last blocks may be there to predict further tokens.
    BIFOCAL_TRY(const int64_t n_extra,
                metadata.get_integer_or(keys.full("nextn_predict_layers"), 0, kMaxLayers, 0));
    n.n_layers = stated.block_count - n_extra;
    if (n.n_layers < 1)
        return metadata.error(keys.full("nextn_predict_layers"), "no block is left for the text",
                              fmt::format("below {}", stated.block_count),
                              fmt::format("{}", n_extra));
    n.context_length = stated.context_length;
    n.d_ff = stated.feed_forward_length;
    n.n_heads = stated.head_count;
    n.n_kv_heads = stated.head_count_kv;
    n.head_dim = stated.key_length;
    n.norm_eps = static_cast<double>(stated.norm_eps);
    if (family.experts) {
        BIFOCAL_TRY(n.experts, experts_from_gguf(*family.experts, metadata, stated));
    }
    if (!family.experts && std::ranges::count(n.d_ff, 0) > 0)
        return metadata.error(keys.full("feed_forward_length"), "bad value", "at least 1", "0");
    if (stated.value_length != stated.key_length)
        return metadata.error(keys.full("attention.value_length"), "unsupported value",
                              fmt::format("the key length, {}", stated.key_length),
                              fmt::format("{}", stated.value_length));
    BIFOCAL_TRY(n.attention_scale, keys.number("attention.scale", 0));
    if (n.attention_scale == 0 && n.n_layers == family.gguf_layers_scaled_by_width)
        n.attention_scale =
            std::sqrt(static_cast<double>(n.n_heads[0]) / static_cast<double>(n.d_model));
    n.activation = family.activation;

    BIFOCAL_TRY_STATUS(read_linear_layers(family, metadata, n));
    n.output_gate = family.output_gate;
    // Of the first layer that has q, k and v.
    const auto softmax = std::ranges::find(n.is_linear, false) - n.is_linear.begin();
    const auto has_bias = [&](const char* part) {
        return has_tensor(fmt::format("blk.{}.{}.bias", softmax, part));
    };
    n.tied = !has_tensor("output.weight");
    n.qkv_bias =
        family.qkv_bias == BiasRule::always || (family.qkv_bias == BiasRule::as_configured &&
                                                (has_bias("attn_q") || has_bias("attn_qkv")));
    n.out_bias = family.out_bias == BiasRule::always ||
                 (family.out_bias == BiasRule::as_configured && has_bias("attn_output"));
    n.mlp_bias = has_tensor("blk.0.ffn_down.bias");

    n.has_rope = rope_layers(n.n_layers, family.no_rope_interval);
    n.window = stated.sliding_window.value_or(0);
    if (family.window_rule == WindowRule::pattern && !keys.has("attention.sliding_window"))
        return metadata.error(keys.full("attention.sliding_window"), "the key is missing");
    BIFOCAL_TRY_STATUS(read_windows(family, keys, n));
    BIFOCAL_TRY(n.rope, rope(family, keys, checkpoint, stated, tokens));
    n.window_rope = n.rope;
    if (family.rope_theta_window > 0) {
        n.window_rope = {};
        n.window_rope.rotary_dim = n.rope.rotary_dim;
        BIFOCAL_TRY(n.window_rope.theta,
                    keys.number("rope.freq_base_swa", family.rope_theta_window));
    }
    return make_model_spec(family, n);
}

}  // namespace bifocal
