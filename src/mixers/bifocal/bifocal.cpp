#include "mixers/bifocal/bifocal.h"

#include "mixers/bifocal/bifocal_mixer.h"
#include "mixers/linear/rules/rules.h"
#include "mixers/shared/options.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_bifocal(const MixerSpec& spec, const LayerContext& context) {
    BIFOCAL_TRY_STATUS(check_attention(context));
    BIFOCAL_TRY_STATUS(check_own_keys(context));
    OptionReader options(spec);
    AttentionConfig near;
    read_window(options, near);
    // A state of the linear family cannot go back, so the window keeps nothing for that.
    options.require(near.ring->slack == 0, "rewind", "0");
    read_learned_sink(options, near);
    linear::LinearConfig far;
    far.is_far = true;
    far.prefix = "self_attn.far.";
    far.qkv_prefix = "self_attn.";
    linear::read_rule(options, "far", far, context);
    const bool has_gate = options.choice("mix", "gate", {"gate", "half"}) == "gate";
    BIFOCAL_TRY(near.spec, options.finish());
    BIFOCAL_TRY_STATUS(linear::check_fit(far));
    return std::unique_ptr<Mixer>(
        std::make_unique<BifocalMixer>(std::move(near), std::move(far), has_gate, context));
}

}  // namespace bifocal
