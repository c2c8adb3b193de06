#include "model/build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/dequant.h"
#include "formats/safetensors/file.h"
#include "model/build_experts.h"

namespace bifocal {
namespace {

std::vector<float> floats(const Tensor& tensor, float offset) {
    std::vector<float> values(static_cast<size_t>(tensor.elems()));
    dequantise_row(tensor.dtype, tensor.bytes.data(), values);
    for (float& value : values) value += offset;
    return values;
}

std::string line(std::string_view name, const Tensor& tensor) {
    return fmt::format("{} {} [{}]", name, dtype_info(tensor.dtype).name,
                       fmt::join(tensor.shape, ", "));
}

void add_once(std::vector<std::string>& lines, std::string text) {
    if (std::ranges::find(lines, text) == lines.end()) lines.push_back(std::move(text));
}

// What one layer is built with.
struct LayerBuilder {
    const ModelSpec& spec;
    WeightFinder& finder;
    const std::string& sink_logits_file;
    Precision precision;
    int64_t layer;
    LayerInfo info = {};

    Result<Tensor> sink_logits(const std::string& path, const WeightSpec& weight) {
        const std::string name = fmt::format("model.layers.{}.{}", layer, kSinks);
        BIFOCAL_TRY(const safetensors::File file, safetensors::File::open(path));
        BIFOCAL_TRY(Tensor tensor, file.tensor(name));
        const std::string where = fmt::format("{}, tensor '{}'", path, name);
        if (tensor.shape != weight.shape)
            return Error{.what = "wrong shape",
                         .where = where,
                         .expected = fmt::format("[{}]", fmt::join(weight.shape, ", ")),
                         .got = fmt::format("[{}]", fmt::join(tensor.shape, ", "))};
        if (!is_real(tensor.dtype))
            return Error{.what = "unsupported type of a weight",
                         .where = where,
                         .got = std::string(dtype_info(tensor.dtype).name)};
        return tensor;
    }

    Result<std::unique_ptr<Mixer>> mixer() {
        const LayerSpec& at = spec.layers[layer];
        BIFOCAL_TRY(std::unique_ptr<Mixer> made, make_mixer(at.mixer, at.context));
        std::string sinks_file = made->spec().options.value("sink_logits", "");
        if (sinks_file.empty()) sinks_file = sink_logits_file;
        WeightMap weights;
        for (const WeightSpec& weight : made->weights()) {
            const bool from_file = weight.name == kSinks && !sinks_file.empty();
            BIFOCAL_TRY(Tensor tensor, from_file ? sink_logits(sinks_file, weight)
                                                 : finder.layer_weight(layer, weight));
            if (tensor.bytes.empty()) continue;
            info.weights.push_back(line(weight.name, tensor));
            weights.emplace(weight.name, std::move(tensor));
        }
        BIFOCAL_TRY_STATUS(made->bind(weights));
        info.mixer = made->spec().to_string();
        for (std::string& choice : made->describe()) add_once(info.choices, std::move(choice));
        info.weight_bytes += made->weight_bytes();
        return made;
    }

    Result<ops::Linear> linear(std::string_view name) {
        const std::string stem = fmt::format("mlp.{}_proj", name);
        BIFOCAL_TRY(const Tensor weight, finder.layer_weight(layer, stem + ".weight", true));
        info.weights.push_back(line(stem + ".weight", weight));
        Tensor bias;
        if (spec.mlp_bias) {
            BIFOCAL_TRY(bias, finder.layer_weight(layer, stem + ".bias", true));
            info.weights.push_back(line(stem + ".bias", bias));
        }
        BIFOCAL_TRY(ops::Linear made,
                    ops::Linear::make(fmt::format("layers.{}.{}", layer, stem), weight,
                                      spec.mlp_bias ? &bias : nullptr, precision));
        add_once(info.choices, fmt::format("mlp: {}", made.kernel()));
        info.weight_bytes += made.weight_bytes();
        return made;
    }

    Result<std::vector<float>> norm(std::string_view name) {
        BIFOCAL_TRY(const Tensor tensor, finder.layer_weight(layer, name, true));
        info.weights.push_back(line(name, tensor));
        return floats(tensor, spec.norm_offset);
    }

    Result<ops::FeedForward> feed_forward() {
        const bool post_norm = spec.layers[layer].context.post_norm;
        ops::FeedForward ffn;
        ffn.norm_eps = spec.norm_eps;
        ffn.activation = spec.activation;
        BIFOCAL_TRY(ffn.norm, norm(post_norm ? "pre_feedforward_layernorm.weight"
                                             : "post_attention_layernorm.weight"));
        ffn.residual = spec.layers[layer].ffn_residual;
        if (spec.layers[layer].experts) {
            BIFOCAL_TRY(ffn.experts, build_experts(spec, finder, precision, layer, info));
        } else {
            BIFOCAL_TRY(ffn.gate, linear("gate"));
            BIFOCAL_TRY(ffn.up, linear("up"));
            BIFOCAL_TRY(ffn.down, linear("down"));
        }
        if (post_norm) {
            BIFOCAL_TRY(ffn.post_norm, norm("post_feedforward_layernorm.weight"));
        }
        return ffn;
    }
};

Status build_head(Decoder& decoder, WeightFinder& finder, Precision precision, ModelInfo& info) {
    const ModelSpec& spec = decoder.spec;
    BIFOCAL_TRY(const Tensor embedding, finder.model_weight("model.embed_tokens.weight", true));
    BIFOCAL_TRY(decoder.embedding_rows,
                ops::Linear::make("embed_tokens", embedding, nullptr, precision));
    info.head.push_back(line("embed_tokens.weight", embedding));
    BIFOCAL_TRY(const Tensor norm, finder.model_weight("model.norm.weight", true));
    decoder.final_norm = floats(norm, spec.norm_offset);
    info.head.push_back(line("norm.weight", norm));

    BIFOCAL_TRY(const Tensor head, finder.model_weight("lm_head.weight", !spec.tied_embedding));
    if (spec.tied_embedding) {
        const bool same =
            head.bytes.empty() ||
            (head.dtype == embedding.dtype &&
             std::memcmp(head.bytes.data(), embedding.bytes.data(), head.bytes.size()) == 0);
        if (!same)
            return Error{.what =
                             "the head is stored and differs from the embedding, though the "
                             "configuration ties them",
                         .where = info.path + ", tensor 'lm_head.weight'"};
        info.head.push_back("head: the embedding");
    } else {
        BIFOCAL_TRY(ops::Linear made, ops::Linear::make("lm_head", head, nullptr, precision));
        decoder.head = std::make_unique<ops::Linear>(std::move(made));
        info.head.push_back(line("lm_head.weight", head));
    }
    const ops::Linear& product = decoder.head ? *decoder.head : decoder.embedding_rows;
    info.head.push_back("head: " + product.kernel());
    info.weight_bytes += product.weight_bytes();
    return {};
}

}  // namespace

Result<Decoder> build_decoder(ModelSpec spec, WeightFinder& finder, const ModelOptions& options,
                              ModelInfo& info) {
    const Precision precision = options.exact ? Precision::exact : Precision::fast;
    Decoder decoder;
    decoder.spec = std::move(spec);
    for (LayerSpec& layer : decoder.spec.layers) layer.context.precision = precision;
    BIFOCAL_TRY_STATUS(build_head(decoder, finder, precision, info));
    for (int64_t i = 0; i < static_cast<int64_t>(decoder.spec.layers.size()); ++i) {
        LayerBuilder builder{decoder.spec, finder, options.sink_logits, precision, i};
        DecoderLayer layer;
        BIFOCAL_TRY(layer.mixer, builder.mixer());
        BIFOCAL_TRY(layer.ffn, builder.feed_forward());
        decoder.spec.layers[i].mixer = layer.mixer->spec();
        decoder.layers.push_back(std::move(layer));
        info.weight_bytes += builder.info.weight_bytes;
        info.layers.push_back(std::move(builder.info));
    }
    return decoder;
}

}  // namespace bifocal
