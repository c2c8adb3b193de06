#include "mixers/linear/linear.h"

#include "mixers/linear/linear_mixer.h"
#include "mixers/linear/rules/rules.h"

namespace bifocal {
Result<std::unique_ptr<Mixer>> make_linear(const MixerSpec& spec, const LayerContext& context) {
    BIFOCAL_TRY(linear::LinearConfig config, linear::read_config(spec, context));
    return std::unique_ptr<Mixer>(
        std::make_unique<linear::LinearMixer>(std::move(config), context));
}

}  // namespace bifocal
