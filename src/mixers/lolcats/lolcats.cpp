#include "mixers/lolcats/lolcats.h"

#include "mixers/lolcats/lolcats_mixer.h"
#include "mixers/shared/options.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_lolcats(const MixerSpec& spec, const LayerContext& context) {
    BIFOCAL_TRY_STATUS(check_attention(context));
    BIFOCAL_TRY_STATUS(check_own_keys(context));
    OptionReader options(spec);
    AttentionConfig near;
    read_window(options, near);
    // What leaves the window at once is what the state takes in.
    options.require(near.ring->slack == 0, "rewind", "0");
    options.require(near.ring->sink_tokens == 0, "sink_tokens", "0");
    const int64_t half = std::max<int64_t>(1, context.head_dim / 2);
    const int64_t n_features = 2 * options.integer("features", half, 1, kMaxHeadDim);
    const bool is_affine = options.boolean("affine", false);
    BIFOCAL_TRY(near.spec, options.finish());
    return std::unique_ptr<Mixer>(
        std::make_unique<LolcatsMixer>(std::move(near), n_features, is_affine, context));
}

}  // namespace bifocal
