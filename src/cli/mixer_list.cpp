#include "cli/mixer_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/report.h"
#include "core/json/json.h"
#include "mixers/mixer.h"
#include "mixers/shared/rule_names.h"
#include "model/shapes.h"
#include "runtime/plan.h"

namespace bifocal::cli {
namespace {

// State sizes are those of one layer of this model.
constexpr const char* kShape = "qwen3-4b";
constexpr int64_t kWindow = 512;      // where a layout wants one
constexpr int64_t kCapacity = 32768;  // of full attention

struct MixerRow {
    MixerSpec spec;
    std::string what;
    MixerTraits traits;
    int64_t state_bytes = 0;
    bool grows = false;  // with the capacity
};

// The standard layouts, and whatever else is registered.
std::vector<MixerSpec> layouts() {
    std::vector<MixerSpec> all = standard_layouts();
    all.insert(all.begin(), {"full_attention"});
    for (const MixerEntry& entry : registered_mixers())
        if (std::ranges::find(all, entry.kind, &MixerSpec::kind) == all.end())
            all.push_back({std::string(entry.kind)});
    return all;
}

std::string what_of(const MixerSpec& spec) {
    for (const char* option : {"rule", "far"})
        if (const auto name = spec.options.value(option, ""); !name.empty())
            return linear_rule_what(name);
    return "";
}

Result<MixerRow> row_of(MixerSpec spec, const LayerContext& layer) {
    MixerRow row;
    row.what = what_of(spec);
    auto mixer = make_mixer(spec, layer);
    if (!mixer.ok() && mixer.error().what == "option 'window'") {
        spec.options["window"] = kWindow;
        mixer = make_mixer(spec, layer);
    }
    if (!mixer.ok()) return std::move(mixer).error();
    row.spec = std::move(spec);
    row.traits = (*mixer)->traits();
    const StateLayout state = (*mixer)->state_layout({kCapacity, DType::bf16});
    row.state_bytes = static_cast<int64_t>(state.bytes);
    row.grows = state.capacity >= 0;
    return row;
}

const char* yes(bool is_so) {
    return is_so ? "yes" : "no";
}

}  // namespace

Status print_mixers(bool json) {
    BIFOCAL_TRY(const ModelSpec model, spec_of_shape(kShape));
    std::vector<MixerRow> rows;
    for (MixerSpec& spec : layouts()) {
        BIFOCAL_TRY(MixerRow row, row_of(std::move(spec), model.layers.front().context));
        rows.push_back(std::move(row));
    }
    if (json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const MixerRow& row : rows)
            list.push_back({{"layout", row.spec.to_string()},
                            {"what", row.what},
                            {"state_bytes", row.state_bytes},
                            {"grows", row.grows},
                            {"trains", row.traits.trainable},
                            {"same_bits_for_any_chunking", row.traits.same_bits_for_any_chunking},
                            {"devices", row.traits.devices}});
        const nlohmann::ordered_json all = {
            {"shape", kShape}, {"capacity", kCapacity}, {"mixers", list}};
        fmt::print("{}\n", json::to_text(all, 2));
        return {};
    }
    std::vector<std::vector<std::string>> table_rows = {
        {"layout", "state per layer", "trains", "same bits however cut", "devices"}};
    for (const MixerRow& row : rows)
        table_rows.push_back({row.spec.to_string(), bytes_text(row.state_bytes),
                              yes(row.traits.trainable), yes(row.traits.same_bits_for_any_chunking),
                              fmt::format("{}", fmt::join(row.traits.devices, ", "))});
    fmt::print("states of a layer of {}, full attention at {} tokens\n\n{}", kShape,
               count_text(kCapacity), table(table_rows));
    return {};
}

}  // namespace bifocal::cli
