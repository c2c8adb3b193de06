#include "mixers/sliding_window/sliding_window.h"

#include <fmt/format.h>

#include "mixers/shared/attention_mixer.h"
#include "mixers/shared/options.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_sliding_window(const MixerSpec& spec,
                                                   const LayerContext& context) {
    constexpr int64_t kMax = int64_t{1} << 24;  // tokens; far past any model's trained length
    AttentionConfig config;
    OptionReader options(spec);
    RingPlan ring;
    ring.window = options.integer("window", std::nullopt, 1, kMax);
    ring.sink_tokens = options.integer("sink_tokens", 0, 0, kMax);
    options.require(ring.window >= ring.sink_tokens + 1, "window",
                    fmt::format("at least sink_tokens + 1 = {}", ring.sink_tokens + 1));
    config.sinks_at_cache_positions =
        options.choice("sink_positions", "absolute", {"absolute", "cache"}) == "cache";
    ring.slack = options.integer("rewind", 0, 0, kMax);
    config.ring = ring;
    read_learned_sink(options, config);
    BIFOCAL_TRY(config.spec, options.finish());
    return make_attention(std::move(config), context);
}

}  // namespace bifocal
