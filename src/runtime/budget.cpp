#include "runtime/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "mixers/mixer.h"
#include "model/layout.h"

namespace bifocal {

Result<Decoder> decoder_without_weights(const ModelSpec& model, const MixerSpec& mixer) {
    Decoder decoder;
    const std::vector<MixerSpec> layout = layout_with(model, mixer);
    for (size_t i = 0; i < layout.size(); ++i) {
        BIFOCAL_TRY(auto made, make_mixer(layout[i], model.layers[i].context));
        decoder.layers.push_back({std::move(made), {}});
    }
    return decoder;
}

Result<int64_t> layout_bytes(const ModelSpec& model, const MixerSpec& mixer,
                             const StateOptions& options) {
    BIFOCAL_TRY(const Decoder decoder, decoder_without_weights(model, mixer));
    return static_cast<int64_t>(decoder.plan_states(options).bytes);
}

Result<MixerSpec> smallest_window(const ModelSpec& model, MixerSpec mixer,
                                  const StateOptions& options) {
    mixer.options["window"] = 1;
    if (layout_bytes(model, mixer, options).ok()) return mixer;
    const auto sinks = mixer.options.value("sink_tokens", nlohmann::json(0));
    const int64_t n_sinks = sinks.is_number_integer() ? sinks.get<int64_t>() : 0;
    // A number of sinks beyond all reason is for the mixer to refuse.
    if (n_sinks > 0 && n_sinks < int64_t{1} << 24) mixer.options["window"] = n_sinks + 1;
    const auto made = decoder_without_weights(model, mixer);
    if (!made.ok()) return made.error();
    return mixer;
}

Result<MixerSpec> fit_window(const ModelSpec& model, MixerSpec mixer, const StateOptions& options,
                             int64_t budget, int64_t max_window) {
    const auto bytes_at = [&](int64_t window) {
        mixer.options["window"] = window;
        return layout_bytes(model, mixer, options);
    };
    BIFOCAL_TRY(mixer, smallest_window(model, std::move(mixer), options));
    int64_t low = mixer.options["window"];
    BIFOCAL_TRY(const int64_t least, bytes_at(low));
    if (least > budget)
        return Error{.what = "the budget is too small for one token",
                     .where = mixer.to_string(),
                     .expected = fmt::format("at least {} bytes per sequence", least),
                     .got = fmt::format("{}", budget),
                     .hint = fmt::format("--mem-per-seq {} is the least that works", least)};
    int64_t high = std::max(low, max_window);  // low fits; find the last that does
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        BIFOCAL_TRY(const int64_t needed, bytes_at(middle));
        if (needed <= budget) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    mixer.options["window"] = low;
    return mixer;
}

Result<int64_t> parse_bytes(const std::string& text) {
    const Error bad{.what = "not a number of bytes",
                    .expected = "a number and perhaps a unit: 4096, 512k, 1.5M, 72MiB",
                    .got = fmt::format("'{}'", text),
                    .kind = ErrorKind::usage};
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return bad;
    std::string unit(rest, end);
    if (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
    double factor = 1;
    if (!unit.empty()) {
        const size_t power = std::string("kKmMgG").find(unit[0]);
        if (power == std::string::npos || unit.size() > 2) return bad;
        if (unit.size() == 2 && unit[1] != 'i') return bad;
        const size_t steps = power / 2 + 1;  // of a thousand, or of 1024
        factor = std::pow(unit.size() == 2 ? 1024.0 : 1000.0, static_cast<double>(steps));
    }
    const double bytes = std::floor(number * factor);
    if (bytes < 1 || bytes > 0x1p52) return bad;
    return static_cast<int64_t>(bytes);
}

}  // namespace bifocal
