#include "model/student.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/families/readers.h"

namespace bifocal {
namespace {

using json::Fields;
using json::OrderedJson;

// What readers that do not know our layouts can say about a layer.
std::string layer_type(const MixerSpec& mixer) {
    if (mixer.kind == "full_attention") return "full_attention";
    if (mixer.kind == "sliding_window") return "sliding_attention";
    if (mixer.kind == "bifocal") return "hybrid_sliding";
    return "linear_attention";
}

Result<std::vector<MixerSpec>> read_layout(const Fields& config, int64_t n_layers) {
    const json::Json* const mixers = config.find("token_mixers");
    if (!mixers) return config.error("token_mixers", "missing");
    if (!mixers->is_array())
        return config.error("token_mixers", "wrong type", "a list with one entry for each layer",
                            std::string(json::kind(*mixers)));
    BIFOCAL_TRY(std::vector<MixerSpec> layout,
                parse_layout(*mixers, config.where() + ", token_mixers", n_layers));
    BIFOCAL_TRY(const auto types, config.strings("layer_types"));
    if (!types) return config.error("layer_types", "missing");
    if (types->size() != layout.size())
        return config.error("layer_types", "wrong length", fmt::format("{}", layout.size()),
                            fmt::format("{}", types->size()));
    for (size_t i = 0; i < layout.size(); ++i)
        if ((*types)[i] != layer_type(layout[i]))
            return config.error("layer_types", fmt::format("disagrees with token_mixers[{}]", i),
                                layer_type(layout[i]), (*types)[i]);
    return layout;
}

// A teacher's config as its family's reader wants it.
Result<json::Json> without_layout(const Fields& config) {
    json::Json teacher = config.json();
    teacher.erase("layer_types");
    if (const json::Json* types = config.find("base_layer_types")) teacher["layer_types"] = *types;
    return teacher;
}

}  // namespace

bool is_student(const Fields& config) {
    const json::Json* const type = config.find("model_type");
    return type && *type == kStudentModelType;
}

Result<const Family*> student_teacher(const Fields& config) {
    BIFOCAL_TRY(const auto version, config.integer("bifocal_format_version"));
    if (!version) return config.error("bifocal_format_version", "missing");
    if (*version < 1 || *version > kStudentFormatVersion)
        return config.error("bifocal_format_version", "a newer format",
                            fmt::format("at most {}", kStudentFormatVersion),
                            fmt::format("{}", *version));
    BIFOCAL_TRY(const auto base, config.string("base_model_type"));
    if (!base) return config.error("base_model_type", "missing");
    return family_of_hf({}, *base, config.where());
}

Result<ModelSpec> spec_from_student(const Family& family, const Fields& config, int64_t tokens) {
    BIFOCAL_TRY(const json::Json plain, without_layout(config));
    BIFOCAL_TRY(const Fields teacher, Fields::of(plain, config.where()));
    BIFOCAL_TRY(ModelSpec spec, spec_from_hf(family, teacher, tokens));
    BIFOCAL_TRY(std::vector<MixerSpec> layout,
                read_layout(config, static_cast<int64_t>(spec.layers.size())));
    for (size_t i = 0; i < layout.size(); ++i) spec.layers[i].mixer = std::move(layout[i]);
    return spec;
}

OrderedJson student_config(const Family& family, OrderedJson teacher,
                           const std::vector<MixerSpec>& layout) {
    if (teacher.contains("layer_types")) teacher["base_layer_types"] = teacher["layer_types"];
    teacher["architectures"] = {"BifocalForCausalLM"};
    teacher["model_type"] = kStudentModelType;
    teacher["base_model_type"] = std::string(family.model_types.front());
    OrderedJson types = OrderedJson::array(), mixers = OrderedJson::array();
    for (const MixerSpec& mixer : layout) {
        types.push_back(layer_type(mixer));
        OrderedJson entry = {{"kind", mixer.kind}};
        for (const auto& [name, value] : mixer.options.items()) entry[name] = value;
        mixers.push_back(std::move(entry));
    }
    teacher["layer_types"] = std::move(types);
    teacher["token_mixers"] = std::move(mixers);
    teacher["bifocal_format_version"] = kStudentFormatVersion;
    return teacher;
}

namespace {

void add_linear_layers(OrderedJson& config, const ModelSpec& spec) {
    OrderedJson types = OrderedJson::array();
    for (const LayerSpec& layer : spec.layers) types.push_back(layer_type(layer.mixer));
    config["layer_types"] = std::move(types);
    config["linear_num_key_heads"] = spec.linear.key_heads;
    config["linear_num_value_heads"] = spec.linear.value_heads;
    config["linear_key_head_dim"] = spec.linear.key_dim;
    config["linear_value_head_dim"] = spec.linear.value_dim;
    config["linear_conv_kernel_dim"] = spec.linear.conv_width;
}

}  // namespace

Result<OrderedJson> config_of(const Family& family, const ModelSpec& spec,
                              const std::string& where) {
    const auto softmax = std::ranges::find_if(
        spec.layers, [](const LayerSpec& layer) { return !layer.is_native_linear; });
    const LayerContext& first =
        softmax == spec.layers.end() ? spec.layers.front().context : softmax->context;
    const auto no_words = [&](const char* what) {
        return Error{.what = fmt::format("config.json has no words for {}", what),
                     .where = where,
                     .hint = "convert from the Hugging Face folder of this model instead"};
    };
    for (const LayerSpec& layer : spec.layers) {
        const LayerContext& c = layer.context;
        if (c.n_heads != first.n_heads || c.n_kv_heads != first.n_kv_heads ||
            layer.d_ff != spec.layers.front().d_ff)
            return no_words("layers of different sizes");
        if (layer.experts) return no_words("experts");
        if (layer.mixer.kind != "full_attention" && !layer.is_native_linear)
            return no_words("this file's own windows");
        if (c.rope.has_value() != first.rope.has_value())
            return no_words("layers without positions");
    }
    if (!first.rope) return no_words("a model without positions");
    const ops::RopeSpec& rope = *first.rope;
    OrderedJson positions = {{"rope_type", "default"}, {"rope_theta", rope.theta}};
    if (rope.rotary_dim != first.head_dim)
        positions["partial_rotary_factor"] =
            static_cast<double>(rope.rotary_dim) / static_cast<double>(first.head_dim);
    if (rope.scaling == ops::RopeScaling::linear) {
        positions["rope_type"] = "linear";
        positions["factor"] = rope.factor;
    } else if (rope.scaling != ops::RopeScaling::none || !rope.divisors.empty()) {
        return no_words("this file's scaling of positions");
    }
    OrderedJson config{{"hidden_size", spec.d_model},
                       {"intermediate_size", spec.d_ff},
                       {"num_hidden_layers", spec.layers.size()},
                       {"num_attention_heads", first.n_heads},
                       {"num_key_value_heads", first.n_kv_heads},
                       {"head_dim", first.head_dim},
                       {"vocab_size", spec.vocab_size},
                       {"max_position_embeddings", spec.context_length},
                       {"hidden_act", std::string(family.activation)},
                       // The shortest decimal of the float, as a person would have written it.
                       {"rms_norm_eps", std::stod(fmt::format("{}", spec.norm_eps))},
                       {"attention_bias", first.qkv_bias},
                       {"mlp_bias", spec.mlp_bias},
                       {"tie_word_embeddings", spec.tied_embedding},
                       {"rope_parameters", positions},
                       {"eos_token_id", spec.stop_tokens}};
    // Converters to GGUF have added it to the weights.
    if (family.norm_offset != spec.norm_offset) config["rms_norm_offset"] = spec.norm_offset;
    if (family.output_gate) config["attn_output_gate"] = first.output_gate;
    if (family.experts) config["num_experts"] = 0;  // no layer has any, see above
    if (family.full_attention_interval > 0) add_linear_layers(config, spec);
    return config;
}

}  // namespace bifocal
