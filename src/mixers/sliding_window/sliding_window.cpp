#include "mixers/sliding_window/sliding_window.h"

#include "mixers/shared/attention_mixer.h"
#include "mixers/shared/options.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_sliding_window(const MixerSpec& spec,
                                                   const LayerContext& context) {
    AttentionConfig config;
    OptionReader options(spec);
    read_window(options, config);
    read_learned_sink(options, config);
    BIFOCAL_TRY(config.spec, options.finish());
    return make_attention(std::move(config), context);
}

}  // namespace bifocal
