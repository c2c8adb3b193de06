#include "model/families/hyperparameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families/linear_layers.h"

namespace bifocal {
namespace {

Error bad(const Hyperparameters& numbers, const std::string& what, const std::string& expected,
          const auto& got) {
    return {
        .what = what, .where = numbers.where, .expected = expected, .got = fmt::format("{}", got)};
}

Result<ops::Activation> activation(const Hyperparameters& numbers) {
    const std::string& name = numbers.activation;
    if (name == "silu" || name == "swish") return ops::Activation::silu;
    if (name == "gelu_pytorch_tanh") return ops::Activation::gelu_tanh;
    return bad(numbers, "unsupported activation", "silu or gelu_pytorch_tanh", name);
}

Status check_sizes(const Hyperparameters& n) {
    const auto in_range = [](int64_t x) { return x >= 1 && x <= kMaxSize; };
    if (n.n_layers < 1 || n.n_layers > kMaxLayers)
        return bad(n, "bad number of layers", fmt::format("1..{}", kMaxLayers), n.n_layers);
    if (!in_range(n.d_model)) return bad(n, "bad model width", "1 or more", n.d_model);
    if (!in_range(n.vocab_size)) return bad(n, "bad vocabulary size", "1 or more", n.vocab_size);
    if (n.context_length < 1) return bad(n, "bad context length", "1 or more", n.context_length);
    if (!std::isfinite(n.norm_eps) || n.norm_eps <= 0)
        return bad(n, "bad epsilon of the norms", "above 0", n.norm_eps);
    if (!std::isfinite(n.attention_scale) || n.attention_scale < 0)
        return bad(n, "bad attention scale", "above 0", n.attention_scale);
    for (int64_t i = 0; i < n.n_layers; ++i) {
        const int64_t heads = n.n_heads[i], kv_heads = n.n_kv_heads[i];
        const bool is_dense = n.experts.empty() || !n.experts[i];
        if (is_dense && !in_range(n.d_ff[i]))
            return bad(n, "bad feed-forward width", "1 or more", n.d_ff[i]);
        if (!in_range(heads)) return bad(n, "bad number of heads", "1 or more", heads);
        if (!in_range(kv_heads) || heads % kv_heads != 0)
            return bad(n, "bad number of key-value heads", fmt::format("a divisor of {}", heads),
                       kv_heads);
        if (n.head_dim == 0 && n.d_model % heads != 0)
            return bad(n, "no head size given, and heads do not divide the model width",
                       fmt::format("a divisor of {}", n.d_model), heads);
    }
    if (n.head_dim < 0 || n.head_dim > 4096) return bad(n, "bad head size", "1..4096", n.head_dim);
    return {};
}

Result<ops::RopeSpec> checked_rope(const Hyperparameters& n, ops::RopeSpec rope, int64_t head_dim) {
    if (rope.rotary_dim == 0) rope.rotary_dim = head_dim;
    if (rope.rotary_dim < 2 || rope.rotary_dim > head_dim || rope.rotary_dim % 2 != 0)
        return bad(n, "bad number of rotated dimensions",
                   fmt::format("an even number up to {}", head_dim), rope.rotary_dim);
    Result<ops::RopeTable> table = ops::make_rope_table(rope);
    if (!table.ok()) {
        Error error = std::move(table).error();
        error.where = n.where;
        return error;
    }
    return rope;
}

}  // namespace

Result<ModelSpec> make_model_spec(const Family& family, const Hyperparameters& n) {
    BIFOCAL_TRY_STATUS(check_sizes(n));
    BIFOCAL_TRY_STATUS(check_linear_layers(n));
    const bool any_window = std::ranges::find(n.is_windowed, true) != n.is_windowed.end();
    if (any_window && (n.window < 1 || n.window > (int64_t{1} << 40)))
        return bad(n, "bad sliding window", "1 or more", n.window);
    const bool any_rope = std::ranges::find(n.has_rope, true) != n.has_rope.end();

    ModelSpec spec;
    spec.family = family.name;
    spec.vocab_size = n.vocab_size;
    spec.d_model = n.d_model;
    spec.d_ff = *std::ranges::max_element(n.d_ff);
    spec.context_length = n.context_length;
    spec.norm_eps = static_cast<float>(n.norm_eps);
    spec.norm_offset = static_cast<float>(n.norm_offset);
    if (family.scaled_embedding)
        spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(n.d_model)));
    BIFOCAL_TRY(spec.activation, activation(n));
    spec.mlp_bias = n.mlp_bias;
    spec.tied_embedding = n.tied;
    spec.stop_tokens = n.stop_tokens;
    spec.linear = n.linear;

    const MixerSpec linear_mixer =
        n.linear.key_heads > 0 ? native_linear_mixer(family.linear_rule, n.linear, n.norm_eps)
                               : n.linear_mixer;
    for (int64_t i = 0; i < n.n_layers; ++i) {
        LayerSpec layer;
        layer.d_ff = n.d_ff[i];
        LayerContext& context = layer.context;
        context.layer = i;
        context.n_layers = n.n_layers;
        context.d_model = n.d_model;
        context.n_heads = n.n_heads[i];
        context.n_kv_heads = n.n_kv_heads[i];
        context.head_dim = n.head_dim ? n.head_dim : n.d_model / n.n_heads[i];
        context.scale = static_cast<float>(
            n.attention_scale > 0 ? n.attention_scale
                                  : 1 / std::sqrt(static_cast<double>(context.head_dim)));
        context.norm_eps = spec.norm_eps;
        context.norm_offset = spec.norm_offset;
        context.qk_norm = family.qk_norm;
        context.qkv_bias = n.qkv_bias && !n.is_linear[i];
        context.out_bias = n.out_bias && !n.is_linear[i];
        context.output_gate = n.output_gate;
        context.latent = n.latent;
        context.post_norm = family.post_norms;
        if (any_rope && n.has_rope[i]) {
            BIFOCAL_TRY(context.rope, checked_rope(n, n.is_windowed[i] ? n.window_rope : n.rope,
                                                   context.head_dim));
        }
        layer.mixer.kind = n.is_windowed[i] ? "sliding_window" : "full_attention";
        if (n.is_windowed[i]) layer.mixer.options["window"] = n.window;
        if (family.learned_sinks) layer.mixer.options["sink"] = "learned";
        layer.is_native_linear = n.is_linear[i];
        if (n.is_linear[i]) layer.mixer = linear_mixer;
        context.residual = n.is_linear[i] ? n.linear_residual : n.softmax_residual;
        layer.ffn_residual = n.ffn_residual;
        if (!n.experts.empty()) layer.experts = n.experts[i];
        if (layer.experts && !family.experts->activation)
            layer.experts->activation = spec.activation;
        spec.layers.push_back(std::move(layer));
    }
    return spec;
}

std::vector<bool> windowed_layers(const Family& family, const Hyperparameters& n, int64_t pattern,
                                  int64_t upper_from) {
    std::vector<bool> is_windowed(n.n_layers, false);
    if (n.window == 0) return is_windowed;
    for (int64_t i = 0; i < n.n_layers; ++i) switch (family.window_rule) {
            case WindowRule::never:
                break;
            case WindowRule::every_layer:
                is_windowed[i] = true;
                break;
            case WindowRule::upper_layers:
                is_windowed[i] = i >= upper_from;
                break;
            case WindowRule::nope_layers:
                is_windowed[i] = !n.has_rope[i];
                break;
            case WindowRule::pattern:
                is_windowed[i] = pattern == 0 || (i + 1) % pattern != 0;
                break;
        }
    return is_windowed;
}

std::vector<bool> rope_layers(int64_t n_layers, int64_t no_rope_interval) {
    std::vector<bool> has_rope(n_layers, true);
    if (no_rope_interval > 0)
        for (int64_t i = 0; i < n_layers; ++i) has_rope[i] = (i + 1) % no_rope_interval != 0;
    return has_rope;
}

}  // namespace bifocal
