// Bytes as an attention layout: as SPEC text and as the text of a layout file. What is accepted
// makes mixers that declare a state, and reads back from its own text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/json/json.h"
#include "mixers/mixer.h"

namespace {

using namespace bifocal;

constexpr int64_t kLayers = 2;

void require(bool condition) {
    if (!condition) std::abort();
}

void require_one_line(const Error& error) {
    const std::string message = error.message();
    require(!message.empty() && message.find('\n') == std::string::npos);
}

void use(const MixerSpec& spec) {
    LayerContext context;
    context.d_model = 24;
    context.n_heads = 6;
    context.n_kv_heads = 2;
    context.head_dim = 4;
    context.scale = 0.5f;
    const auto mixer = make_mixer(spec, context);
    if (!mixer.ok()) return require_one_line(mixer.error());
    require((*mixer)->state_layout({.capacity = 7}).bytes > 0);
    const auto again = parse_mixer_spec((*mixer)->spec().to_string());
    // Text with a comma inside a value has no SPEC form; layouts may hold it.
    if (again.ok()) require(again->kind == spec.kind);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto spec = parse_mixer_spec(text); spec.ok()) {
        use(*spec);
    } else {
        require_one_line(spec.error());
    }
    const auto json = json::parse(text, "layout");
    if (!json.ok()) return 0;
    const auto layout = parse_layout(*json, "layout", kLayers);
    if (!layout.ok()) {
        require_one_line(layout.error());
        return 0;
    }
    require(layout->size() == kLayers);
    for (const MixerSpec& spec : *layout) use(spec);
    return 0;
}
