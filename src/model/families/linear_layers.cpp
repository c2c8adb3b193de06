#include "model/families/linear_layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace bifocal {
namespace {

constexpr const char* kLinear = "linear_attention";
constexpr const char* kFull = "full_attention";

std::vector<bool> linear_by_interval(int64_t n_layers, int64_t interval) {
    std::vector<bool> is_linear;
    for (int64_t i = 0; i < n_layers; ++i) is_linear.push_back((i + 1) % interval != 0);
    return is_linear;
}

// layer_types, where each is one of the two.
Result<std::optional<std::vector<bool>>> listed_types(const json::Fields& config,
                                                      int64_t n_layers) {
    BIFOCAL_TRY(const auto types, config.strings("layer_types"));
    if (!types) return std::optional<std::vector<bool>>();
    if (std::ssize(*types) != n_layers)
        return config.error("layer_types", "wrong length", fmt::format("{}", n_layers),
                            fmt::format("{}", types->size()));
    std::vector<bool> is_linear;
    for (const std::string& type : *types) {
        if (type != kFull && type != kLinear)
            return config.error("layer_types", "unsupported value",
                                fmt::format("{} or {}", kFull, kLinear), type);
        is_linear.push_back(type == kLinear);
    }
    return std::optional(std::move(is_linear));
}

// layer_types, or all but every n-th; what both say must be the same.
Status read_types(const Family& family, const json::Fields& config, Hyperparameters& n) {
    BIFOCAL_TRY(const auto interval, config.integer("full_attention_interval", 1, kMaxLayers));
    BIFOCAL_TRY(const auto listed, listed_types(config, n.n_layers));
    const std::vector<bool> by_interval =
        linear_by_interval(n.n_layers, interval.value_or(family.full_attention_interval));
    n.is_linear = listed.value_or(by_interval);
    if (!interval) return {};
    for (size_t i = 0; i < by_interval.size(); ++i)
        if (n.is_linear[i] != by_interval[i])
            return config.error(
                "layer_types",
                fmt::format("layer {} disagrees with full_attention_interval {}", i, *interval),
                by_interval[i] ? kLinear : kFull, n.is_linear[i] ? kLinear : kFull);
    return {};
}

// kda_layers and full_attn_layers of linear_attn_config, which count from 1: each layer is in one.
Result<std::vector<bool>> kimi_types(const json::Fields& own, int64_t n_layers) {
    std::vector<int> lists(static_cast<size_t>(n_layers), 0);  // that name the layer
    std::vector<bool> is_linear(static_cast<size_t>(n_layers), false);
    for (const char* key : {"kda_layers", "full_attn_layers"}) {
        BIFOCAL_TRY(const auto layers, own.integers(key));
        if (!layers) return own.error(key, "missing");
        for (const int64_t layer : *layers) {
            if (layer < 1 || layer > n_layers)
                return own.error(key, "no such layer", fmt::format("1 to {}", n_layers),
                                 fmt::format("{}", layer));
            ++lists[layer - 1];
            is_linear[layer - 1] = std::string_view(key) == "kda_layers";
        }
    }
    for (size_t i = 0; i < lists.size(); ++i)
        if (lists[i] != 1)
            return own.error("kda_layers",
                             fmt::format("layer {} is listed {} times", i + 1, lists[i]),
                             "once, in kda_layers or in full_attn_layers");
    return is_linear;
}

// Checkpoints say it in linear_attn_config, what transformers writes in keys of the top; where
// there are both, they must agree.
Status read_kimi_layers(const json::Fields& config, Hyperparameters& n) {
    BIFOCAL_TRY(const auto own, config.object("linear_attn_config"));
    BIFOCAL_TRY(const auto listed, listed_types(config, n.n_layers));
    if (!own && !listed) return config.error("linear_attn_config", "missing");
    if (listed) n.is_linear = *listed;
    if (own) {
        BIFOCAL_TRY(n.is_linear, kimi_types(*own, n.n_layers));
        if (listed && n.is_linear != *listed)
            return own->error("kda_layers", "differs from layer_types");
    }
    int64_t heads = n.linear.key_heads, head_dim = n.linear.key_dim;
    struct Size {
        const char *own_key, *top_key;
        int64_t* value;
    };
    for (const Size& size :
         {Size{"num_heads", "linear_num_heads", &heads},
          Size{"head_dim", "linear_head_dim", &head_dim},
          Size{"short_conv_kernel_size", "linear_conv_kernel_dim", &n.linear.conv_width}}) {
        BIFOCAL_TRY(const auto at_top, config.integer(size.top_key, 1, kMaxSize));
        if (at_top) *size.value = *at_top;
        if (!own) continue;
        BIFOCAL_TRY(const auto given, own->integer(size.own_key, 1, kMaxSize));
        if (given && at_top && *given != *at_top)
            return own->error(size.own_key, fmt::format("differs from {}", size.top_key),
                              fmt::format("{}", *at_top), fmt::format("{}", *given));
        if (given) *size.value = *given;
    }
    n.linear.key_heads = n.linear.value_heads = heads;
    n.linear.key_dim = n.linear.value_dim = head_dim;
    return {};
}

}  // namespace

Status read_linear_layers(const Family& family, const json::Fields& config, Hyperparameters& n) {
    n.is_linear.assign(n.n_layers, false);
    n.linear = family.linear;
    if (n.linear.key_heads == 0) return {};
    if (family.linear_rule == LinearRule::kda) return read_kimi_layers(config, n);
    BIFOCAL_TRY_STATUS(read_types(family, config, n));
    for (const auto& [key, value] : {std::pair{"linear_num_key_heads", &n.linear.key_heads},
                                     std::pair{"linear_num_value_heads", &n.linear.value_heads},
                                     std::pair{"linear_key_head_dim", &n.linear.key_dim},
                                     std::pair{"linear_value_head_dim", &n.linear.value_dim},
                                     std::pair{"linear_conv_kernel_dim", &n.linear.conv_width}}) {
        BIFOCAL_TRY(const auto given, config.integer(key, 1, kMaxSize));
        *value = given.value_or(*value);
    }
    BIFOCAL_TRY(const auto gate, config.string("output_gate_type"));
    if (gate && *gate != "silu" && *gate != "swish")
        return config.error("output_gate_type", "unsupported value", "silu or swish", *gate);
    return {};
}

Status read_linear_layers(const Family& family, const gguf::Metadata& metadata,
                          Hyperparameters& n) {
    n.is_linear.assign(n.n_layers, false);
    if (family.linear.key_heads == 0) return {};
    const auto full = [&](const char* key) {
        return fmt::format("{}.{}", family.gguf_architecture, key);
    };
    const std::string listed = full("attention.recurrent_layers");
    if (metadata.has(listed)) {
        BIFOCAL_TRY(n.is_linear, metadata.get_array<bool>(listed));
        // There may be entries for the layers that predict further tokens.
        if (std::ssize(n.is_linear) < n.n_layers)
            return metadata.error(listed, "wrong length", fmt::format("{}", n.n_layers),
                                  fmt::format("{}", n.is_linear.size()));
        n.is_linear.resize(n.n_layers);
    } else {
        BIFOCAL_TRY(const int64_t interval,
                    metadata.get_integer_or(full("full_attention_interval"), 1, kMaxLayers,
                                            family.full_attention_interval));
        n.is_linear = linear_by_interval(n.n_layers, interval);
    }
    int64_t inner = 0;
    for (const auto& [key, value] : {std::pair{"ssm.group_count", &n.linear.key_heads},
                                     std::pair{"ssm.time_step_rank", &n.linear.value_heads},
                                     std::pair{"ssm.state_size", &n.linear.key_dim},
                                     std::pair{"ssm.conv_kernel", &n.linear.conv_width},
                                     std::pair{"ssm.inner_size", &inner}}) {
        BIFOCAL_TRY(*value, metadata.get_integer(full(key), 1, kMaxSize));
    }
    if (inner % n.linear.value_heads != 0)
        return metadata.error(full("ssm.inner_size"), "value heads do not divide it",
                              fmt::format("a multiple of {}", n.linear.value_heads),
                              fmt::format("{}", inner));
    n.linear.value_dim = inner / n.linear.value_heads;
    n.linear.tiles_values = family.gguf_tiles_values && n.linear.value_heads != n.linear.key_heads;
    if (family.gguf_has_sections) {
        const std::string sections = full("rope.dimension_sections");
        if (!metadata.has(sections)) return metadata.error(sections, "the key is missing");
    }
    return {};
}

Status check_linear_layers(const Hyperparameters& n) {
    if (n.linear.key_heads == 0) return {};  // none, or another kind
    if (std::ranges::find(n.is_linear, true) == n.is_linear.end()) return {};
    const auto bad = [&](const std::string& what, const std::string& expected, auto got) {
        return Error{
            .what = what, .where = n.where, .expected = expected, .got = fmt::format("{}", got)};
    };
    constexpr int64_t kMaxHeads = 1 << 16;
    const LinearSizes& l = n.linear;
    if (l.key_heads > kMaxHeads)
        return bad("too many key heads of linear layers", fmt::format("at most {}", kMaxHeads),
                   l.key_heads);
    if (l.value_heads > kMaxHeads || l.value_heads % l.key_heads != 0)
        return bad("bad number of value heads of linear layers",
                   fmt::format("a multiple of the {} key heads", l.key_heads), l.value_heads);
    if (l.conv_width < 2 || l.conv_width > 16)
        return bad("bad convolution of linear layers", "2 to 16 taps", l.conv_width);
    if (n.activation != "silu" && n.activation != "swish")
        return bad("unsupported activation of linear layers", "silu", n.activation);
    return {};
}

MixerSpec native_linear_mixer(LinearRule rule, const LinearSizes& l, double norm_eps) {
    // The shortest decimal of the float, as a person would have written it.
    const double eps = std::stod(fmt::format("{}", static_cast<float>(norm_eps)));
    if (rule == LinearRule::kda)
        return {"linear",
                {{"rule", "kda"},
                 {"form", "kimi"},
                 {"heads", l.key_heads},
                 {"head_dim", l.key_dim},
                 {"conv_width", l.conv_width},
                 {"norm_eps", eps}}};
    return {"linear",
            {{"rule", "gdn"},
             {"form", "qwen"},
             {"key_heads", l.key_heads},
             {"value_heads", l.value_heads},
             {"key_dim", l.key_dim},
             {"value_dim", l.value_dim},
             {"value_order", l.tiles_values ? "tiled" : "grouped"},
             {"conv_width", l.conv_width},
             {"norm_eps", eps}}};
}

}  // namespace bifocal
