#include "model/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <string>

namespace bifocal {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio; odd

// One-to-one in `word` for a given `lane`, and the other way round: no change of one word is lost.
uint64_t mix(uint64_t lane, uint64_t word) {
    return std::rotl((lane ^ word) * kMultiplier, 29);
}

uint64_t finish(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}

std::string numbers_of(const ModelSpec& spec) {
    std::string text =
        fmt::format("{} {} {} {} {} {} {} {} {}\n", spec.vocab_size, spec.d_model, spec.norm_eps,
                    spec.norm_offset, spec.embedding_scale, static_cast<int>(spec.activation),
                    spec.mlp_bias, spec.tied_embedding, spec.layers.size());
    if (const LinearSizes& l = spec.linear; l.key_heads > 0)
        text += fmt::format("{} {} {} {} {} {}\n", l.key_heads, l.value_heads, l.key_dim,
                            l.value_dim, l.conv_width, l.tiles_values);
    for (const LayerSpec& layer : spec.layers) {
        const LayerContext& c = layer.context;
        text += fmt::format("{} {} {} {} {} {} {} {} {}\n", layer.d_ff, c.n_heads, c.n_kv_heads,
                            c.head_dim, c.scale, c.qk_norm, c.qkv_bias, c.out_bias, c.post_norm);
        if (layer.experts) {
            const ExpertsSpec& e = *layer.experts;
            text += fmt::format("experts {} {} {} {} {} {} {}\n", e.n_experts, e.n_used, e.d_ff,
                                e.d_ff_shared, e.gating.sums_to_one, e.has_biases,
                                static_cast<int>(e.activation));
            const ops::Gating& g = e.gating;
            if (g != ops::Gating{.sums_to_one = g.sums_to_one})
                text += fmt::format("gating {} {} {} {}\n", static_cast<int>(g.scores), g.scale,
                                    g.n_groups, g.n_groups_used);
        }
        for (const auto& residual : {c.residual, layer.ffn_residual})
            if (residual)
                text += fmt::format("residual {} {}\n", residual->stream, residual->branch);
        if (c.output_gate) text += "gate\n";
        if (const auto& l = c.latent)
            text += fmt::format("latent {} {} {} {} {}\n", l->rank, l->own_dim, l->shared_dim,
                                l->value_dim, l->norm_eps);
        if (layer.is_native_linear) text += "linear\n";
        if (!c.rope) continue;
        const ops::RopeSpec& r = *c.rope;
        text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}\n", r.theta, r.rotary_dim,
                            static_cast<int>(r.style), static_cast<int>(r.scaling), r.factor,
                            r.original_context, r.low_freq_factor, r.high_freq_factor, r.beta_fast,
                            r.beta_slow, r.truncate, r.attention_factor.value_or(0),
                            fmt::join(r.divisors, " "));
    }
    return text;
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
    uint64_t lanes[4];
    for (uint64_t i = 0; i < 4; ++i) lanes[i] = finish(seed + (i + 1) * kMultiplier);
    const std::byte* at = bytes.data();
    const size_t strides = bytes.size() / 32;
    for (size_t i = 0; i < strides; ++i, at += 32) {
        uint64_t words[4];
        std::memcpy(words, at, 32);
        for (int lane = 0; lane < 4; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
    }
    uint64_t tail[4] = {};
    if (bytes.size() % 32 != 0) std::memcpy(tail, at, bytes.size() % 32);
    uint64_t hash = finish(seed ^ bytes.size());
    for (int lane = 0; lane < 4; ++lane) hash = finish(hash ^ mix(lanes[lane], tail[lane])) + hash;
    return finish(hash);
}

uint64_t model_identity(const ModelSpec& spec, const WeightMap& tensors) {
    uint64_t hash = 0;
    const auto add = [&](const std::string& text) {
        hash = hash_bytes(std::as_bytes(std::span(text)), hash);
    };
    add(numbers_of(spec));
    for (const auto& [name, tensor] : tensors) {
        add(fmt::format("{} {} {}", name, dtype_info(tensor.dtype).name,
                        fmt::join(tensor.shape, " ")));
        hash = hash_bytes(tensor.bytes, hash);
    }
    return hash;
}

}  // namespace bifocal
