#include "runtime/testing/tiny_model.h"

#include "core/rng.h"

namespace bifocal::testing {
namespace {

constexpr int64_t kWidth = 32, kHeads = 4, kKvHeads = 2, kFeedForward = 64;

template <class T>
T must(Result<T> result) {
    BIFOCAL_CHECK(result.ok(), "{}", result.error().message());
    return std::move(result).value();
}

Tensor random_tensor(std::vector<int64_t> shape, double centre, double size, Rng& rng) {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i)
        values.push_back(static_cast<float>(centre + size * rng.normal()));
    return make_tensor_f32(std::move(shape), values);
}

std::vector<float> random_norm(Rng& rng) {
    std::vector<float> values;
    for (int64_t i = 0; i < kWidth; ++i)
        values.push_back(static_cast<float>(1 + 0.1 * rng.normal()));
    return values;
}

ops::Linear random_linear(int64_t out, int64_t in, Precision precision, Rng& rng) {
    const Tensor weight = random_tensor({out, in}, 0, 1 / std::sqrt(static_cast<double>(in)), rng);
    return must(ops::Linear::make("tiny", weight, nullptr, precision));
}

}  // namespace

LayerContext tiny_layer(int64_t layer, Precision precision) {
    LayerContext context;
    context.layer = layer;
    context.d_model = kWidth;
    context.n_heads = kHeads;
    context.n_kv_heads = kKvHeads;
    context.head_dim = kWidth / kHeads;
    context.scale = 1 / std::sqrt(static_cast<float>(context.head_dim));
    context.rope = ops::RopeSpec{};
    context.rope->rotary_dim = context.head_dim;
    context.precision = precision;
    return context;
}

TinyModel tiny_model(const std::string& attention, uint64_t seed, Precision precision) {
    return tiny_model(must(parse_attention(attention, kTinyLayers)), seed, precision);
}

TinyModel tiny_model(const std::vector<MixerSpec>& layout, uint64_t seed, Precision precision) {
    Rng rng{seed};
    TinyModel model{{}, seed};
    Decoder& decoder = model.decoder;
    decoder.spec.family = "tiny";
    decoder.spec.vocab_size = kTinyVocab;
    decoder.spec.d_model = kWidth;
    decoder.spec.d_ff = kFeedForward;
    decoder.spec.context_length = 4096;
    decoder.spec.tied_embedding = true;
    decoder.embedding_rows = random_linear(kTinyVocab, kWidth, precision, rng);
    for (int64_t i = 0; i < kTinyLayers; ++i) {
        LayerSpec layer;
        layer.context = tiny_layer(i, precision);
        layer.mixer = layout[i];
        layer.d_ff = kFeedForward;
        auto mixer = must(make_mixer(layer.mixer, layer.context));
        WeightMap weights;
        for (const WeightSpec& weight : mixer->weights()) {
            const bool is_norm = weight.shape.size() == 1;
            const double size = is_norm ? 0.1 : 2 / std::sqrt(static_cast<double>(kWidth));
            weights.emplace(weight.name, random_tensor(weight.shape, is_norm ? 1 : 0, size, rng));
        }
        const Status bound = mixer->bind(weights);
        BIFOCAL_CHECK(bound.ok(), "{}", bound.error().message());
        ops::FeedForward ffn;
        ffn.norm = random_norm(rng);
        ffn.gate = random_linear(kFeedForward, kWidth, precision, rng);
        ffn.up = random_linear(kFeedForward, kWidth, precision, rng);
        ffn.down = random_linear(kWidth, kFeedForward, precision, rng);
        decoder.spec.layers.push_back(std::move(layer));
        decoder.layers.push_back({std::move(mixer), std::move(ffn)});
    }
    decoder.final_norm = random_norm(rng);
    return model;
}

std::vector<int32_t> tiny_tokens(int64_t n, uint64_t seed) {
    Rng rng{seed};
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(rng.below(kTinyVocab)));
    return tokens;
}

}  // namespace bifocal::testing
