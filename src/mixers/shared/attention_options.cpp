#include <fmt/format.h>

#include "core/check.h"
#include "mixers/shared/attention_core.h"
#include "mixers/shared/options.h"

namespace bifocal {

void read_window(OptionReader& options, AttentionConfig& config) {
    constexpr int64_t kMax = int64_t{1} << 24;  // tokens; far past any model's trained length
    RingPlan ring;
    ring.window = options.integer("window", std::nullopt, 1, kMax);
    ring.sink_tokens = options.integer("sink_tokens", 0, 0, kMax);
    options.require(ring.window >= ring.sink_tokens + 1, "window",
                    fmt::format("at least sink_tokens + 1 = {}", ring.sink_tokens + 1));
    config.sinks_at_cache_positions =
        options.choice("sink_positions", "absolute", {"absolute", "cache"}) == "cache";
    ring.slack = options.integer("rewind", 0, 0, kMax);
    config.ring = ring;
}

void read_learned_sink(OptionReader& options, AttentionConfig& config) {
    config.has_learned_sink = options.choice("sink", "none", {"none", "learned"}) == "learned";
    const std::string file = options.text("sink_logits");
    options.require(file.empty() || config.has_learned_sink, "sink_logits",
                    "nothing unless sink=learned");
}

Status check_attention(const LayerContext& context) {
    const LayerContext& c = context;
    BIFOCAL_CHECK(c.d_model > 0 && c.n_heads > 0 && c.n_kv_heads > 0 && c.head_dim > 0 &&
                      c.n_heads % c.n_kv_heads == 0,
                  "layer {}: {} heads, {} kv heads of {}", c.layer, c.n_heads, c.n_kv_heads,
                  c.head_dim);
    if (c.latent)
        BIFOCAL_CHECK(c.n_kv_heads == c.n_heads &&
                          c.head_dim == c.latent->own_dim + c.latent->shared_dim && !c.rope &&
                          !c.qk_norm && !c.qkv_bias && !c.output_gate,
                      "layer {}: latent keys with what goes with others", c.layer);
    const auto unfit = [&](std::string what, int64_t most, int64_t got) {
        return Error{.what = std::move(what),
                     .expected = fmt::format("at most {}", most),
                     .got = fmt::format("{}", got)};
    };
    if (c.latent && c.latent->width() > kMaxHeadDim)
        return unfit("latent rows too wide", kMaxHeadDim, c.latent->width());
    if (c.head_dim > kMaxHeadDim) return unfit("heads too wide", kMaxHeadDim, c.head_dim);
    if (c.rope && c.rope->rotary_dim > c.head_dim)
        return unfit("rotary size beyond the head's", c.head_dim, c.rope->rotary_dim);
    return {};
}

Status check_own_keys(const LayerContext& context) {
    if (!context.latent) return {};
    return Error{.what = "the layer's keys and values are made from latent rows",
                 .expected = "full_attention or sliding_window",
                 .kind = ErrorKind::usage};
}

}  // namespace bifocal
