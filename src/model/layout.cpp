#include "model/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace bifocal {

std::vector<MixerSpec> layout_with(const ModelSpec& model, const MixerSpec& mixer) {
    std::vector<MixerSpec> layout;
    for (const LayerSpec& layer : model.layers)
        layout.push_back(layer.is_native_linear ? layer.mixer : mixer);
    return layout;
}

Result<std::vector<MixerSpec>> layout_from(const ModelSpec& model, std::string_view attention) {
    BIFOCAL_TRY(std::vector<MixerSpec> layout,
                parse_attention(attention, static_cast<int64_t>(model.layers.size())));
    if (attention.starts_with('@')) return layout;
    if (std::ranges::all_of(model.layers, &LayerSpec::is_native_linear))
        return Error{.what = "every layer of the model is linear",
                     .where = fmt::format("attention '{}'", attention),
                     .expected = "@layout.json, which says each layer",
                     .kind = ErrorKind::usage};
    return layout_with(model, layout.front());
}

}  // namespace bifocal
