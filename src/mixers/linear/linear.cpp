#include "mixers/linear/linear.h"

#include "mixers/linear/linear_mixer.h"
#include "mixers/linear/rules/rules.h"
#include "mixers/shared/options.h"

namespace bifocal {
Result<std::unique_ptr<Mixer>> make_linear(const MixerSpec& spec, const LayerContext& context) {
    OptionReader options(spec);
    linear::LinearConfig config;
    linear::read_rule(options, "rule", config, context);
    BIFOCAL_TRY(config.spec, options.finish());
    BIFOCAL_TRY_STATUS(linear::check_fit(config));
    return std::unique_ptr<Mixer>(
        std::make_unique<linear::LinearMixer>(std::move(config), context));
}

}  // namespace bifocal
