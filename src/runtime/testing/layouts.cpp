#include "runtime/testing/layouts.h"

#include "core/check.h"
#include "mixers/mixer.h"
#include "mixers/shared/rule_names.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal::testing {
namespace {

constexpr int64_t kWindow = 11, kSinks = 3;

TinyLayout layout_of(std::string name, std::vector<MixerSpec> mixers) {
    TinyLayout layout{std::move(name), std::move(mixers), true};
    for (const MixerSpec& spec : layout.mixers) {
        const auto mixer = make_mixer(spec, tiny_layer());
        BIFOCAL_CHECK(mixer.ok(), "{}", mixer.error().message());
        if (!(*mixer)->traits().same_bits_for_any_chunking)
            layout.same_bits_for_any_chunking = false;
    }
    return layout;
}

}  // namespace

std::vector<MixerSpec> every_mixer(const LayerContext& layer, int64_t window) {
    std::vector<MixerSpec> all;
    for (const MixerEntry& entry : registered_mixers()) {
        const size_t before = all.size();
        const auto add_if_taken = [&](nlohmann::json options) {
            MixerSpec spec{std::string(entry.kind), std::move(options)};
            if (make_mixer(spec, layer).ok()) all.push_back(std::move(spec));
        };
        add_if_taken(nlohmann::json::object());
        add_if_taken({{"window", window}});
        for (const std::string& rule : linear_rule_names()) {
            add_if_taken({{"rule", rule}});
            add_if_taken({{"far", rule}, {"window", window}});
        }
        BIFOCAL_CHECK(all.size() > before, "no settings for mixer '{}'", entry.kind);
    }
    return all;
}

std::vector<TinyLayout> every_tiny_layout() {
    std::vector<TinyLayout> all;
    for (const MixerSpec& mixer : every_mixer(tiny_layer(), kWindow))
        all.push_back(layout_of(mixer.to_string(), {mixer, mixer}));
    const MixerSpec sinks{"sliding_window", {{"window", kWindow}, {"sink_tokens", kSinks}}};
    MixerSpec slack = sinks;
    slack.options["rewind"] = 40;
    const MixerSpec state{"linear", {{"rule", "gdn"}}};
    const MixerSpec both{"bifocal", {{"far", "mlstm"}, {"window", kWindow}, {"sink", "learned"}}};
    all.push_back(layout_of("a window with sinks", {sinks, sinks}));
    all.push_back(layout_of("a window that can go back", {slack, slack}));
    all.push_back(layout_of("a window that can go back, and a state", {slack, state}));
    all.push_back(layout_of("a state, and a window beside a state", {state, both}));
    return all;
}

}  // namespace bifocal::testing
