// The one list of mixers is src/mixers/CMakeLists.txt; the build writes all_mixers.h from it.
#include <fmt/format.h>

#include "all_mixers.h"
#include "mixers/mixer.h"

namespace bifocal {

std::span<const MixerEntry> registered_mixers() {
    static const MixerEntry entries[] = {
#define BIFOCAL_MIXER(name) {#name, make_##name},
        BIFOCAL_MIXER_LIST
#undef BIFOCAL_MIXER
    };
    return entries;
}

namespace {

const MixerEntry* find_mixer(std::string_view kind) {
    for (const MixerEntry& entry : registered_mixers()) {
        if (entry.kind == kind) return &entry;
    }
    return nullptr;
}

std::string known_kinds() {
    std::string list = "full";
    for (const MixerEntry& entry : registered_mixers()) list += fmt::format(", {}", entry.kind);
    return list;
}

}  // namespace

Status check_mixer_kind(const std::string& kind) {
    if (find_mixer(kind) != nullptr) return {};
    return Error{.what = "unknown mixer '" + kind + "'",
                 .expected = "one of " + known_kinds(),
                 .kind = ErrorKind::usage};
}

Result<std::unique_ptr<Mixer>> make_mixer(const MixerSpec& spec, const LayerContext& context) {
    const auto make = [&]() -> Result<std::unique_ptr<Mixer>> {
        BIFOCAL_TRY_STATUS(check_mixer_kind(spec.kind));
        return find_mixer(spec.kind)->make(spec, context);
    };
    auto mixer = make();
    if (!mixer.ok())
        mixer.error().where = fmt::format("layer {}: {}", context.layer, spec.to_string());
    return mixer;
}

}  // namespace bifocal
