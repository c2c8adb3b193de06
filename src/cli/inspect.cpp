// bifocal inspect: what a model is made of, what each layer will remember, and what will run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/mixer_list.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "core/cpu_features.h"
#include "core/json/json.h"
#include "model/decoder.h"
#include "runtime/session.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "example:\n"
    "  bifocal inspect --attention sliding_window:window=508,sink_tokens=4";

struct InspectArgs {
    ModelArgs model;
    bool mixers = false, json = false;
};

// A run of layers that are alike in everything shown.
struct Alike {
    size_t first = 0, last = 0;
};

bool same(const LayerInfo& a, const LayerInfo& b) {
    return a.mixer == b.mixer && a.weights == b.weights && a.choices == b.choices;
}

std::vector<Alike> runs_of(const std::vector<LayerInfo>& layers) {
    std::vector<Alike> runs;
    for (size_t i = 0; i < layers.size(); ++i) {
        if (!runs.empty() && same(layers[i], layers[runs.back().first])) {
            runs.back().last = i;
        } else {
            runs.push_back({i, i});
        }
    }
    return runs;
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string out = "[";
    for (size_t i = 0; i < shape.size(); ++i) out += fmt::format("{}{}", i ? ", " : "", shape[i]);
    return out + "]";
}

std::string kernels_text() {
    return fmt::format("{} ({})", isa_name(active_isa()), isa_reason());
}

void print_text(const Model& model, const StatePlan& plan, const EngineOptions& options) {
    const ModelInfo& info = model.info();
    std::vector<std::vector<std::string>> rows;
    rows.push_back({"file", info.path});
    rows.push_back({"format", fmt::format("{}, {}", info.format, bytes_text(info.file_bytes))});
    if (!info.name.empty()) rows.push_back({"name", info.name});
    rows.push_back({"family", info.family});
    rows.push_back({"parameters", fmt::format("{} in {} tensors", count_text(info.n_parameters),
                                              count_text(info.n_tensors))});
    for (const DTypeCount& count : info.dtypes)
        rows.push_back({"  " + count.dtype,
                        fmt::format("{} tensors, {}", count.tensors, bytes_text(count.bytes))});
    rows.push_back({"trained length", count_text(model.context_length()) + " tokens"});
    rows.push_back({"identity", fmt::format("{:016x}", model.identity())});
    rows.push_back({"weights read per token", bytes_text(info.weight_bytes)});
    rows.push_back({"kernels", kernels_text()});
    rows.push_back({"keys and values", options.kv_type == KvType::f32 ? "f32" : "bf16"});
    rows.push_back({"state per sequence",
                    fmt::format("{} ({} bytes){}", bytes_text(static_cast<int64_t>(plan.bytes)),
                                count_text(static_cast<int64_t>(plan.bytes)),
                                plan.max_tokens < 0 ? ", at any length"
                                                    : fmt::format(", up to {} tokens",
                                                                  count_text(plan.max_tokens)))});
    fmt::print("{}", list(rows));
    for (const std::string& line : info.head) fmt::print("\n{}", line);
    fmt::print("\n");
    for (const Alike& run : runs_of(info.layers)) {
        const LayerInfo& layer = info.layers[run.first];
        const StateLayout& state = plan.layers[run.first];
        fmt::print("\n{}: {}\n",
                   run.first == run.last ? fmt::format("layer {}", run.first)
                                         : fmt::format("layers {} to {}", run.first, run.last),
                   layer.mixer);
        std::vector<std::vector<std::string>> lines;
        for (const StateField& field : state.fields)
            lines.push_back(
                {"  state", fmt::format("{} {} {}, {} bytes", field.name,
                                        dtype_info(field.dtype).name, shape_text(field.shape),
                                        count_text(static_cast<int64_t>(field.bytes)))});
        for (const std::string& weight : layer.weights) lines.push_back({"  weight", weight});
        for (const std::string& choice : layer.choices) lines.push_back({"  runs", choice});
        fmt::print("{}", list(lines));
    }
    for (const std::string& note : model.notes()) fmt::print("\nnote: {}\n", note);
}

void print_json(const Model& model, const StatePlan& plan, const EngineOptions& options) {
    const ModelInfo& info = model.info();
    nlohmann::ordered_json dtypes = nlohmann::ordered_json::array();
    for (const DTypeCount& count : info.dtypes)
        dtypes.push_back(
            {{"dtype", count.dtype}, {"tensors", count.tensors}, {"bytes", count.bytes}});
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (size_t i = 0; i < info.layers.size(); ++i) {
        nlohmann::ordered_json fields = nlohmann::ordered_json::array();
        for (const StateField& field : plan.layers[i].fields)
            fields.push_back({{"name", field.name},
                              {"dtype", std::string(dtype_info(field.dtype).name)},
                              {"shape", field.shape},
                              {"bytes", field.bytes}});
        layers.push_back({{"mixer", info.layers[i].mixer},
                          {"state_bytes", plan.layers[i].bytes},
                          {"state", fields},
                          {"weights", info.layers[i].weights},
                          {"runs", info.layers[i].choices},
                          {"weight_bytes", info.layers[i].weight_bytes}});
    }
    const nlohmann::ordered_json json = {
        {"path", info.path},
        {"format", info.format},
        {"name", info.name},
        {"family", info.family},
        {"file_bytes", info.file_bytes},
        {"parameters", info.n_parameters},
        {"tensors", info.n_tensors},
        {"dtypes", dtypes},
        {"context_length", model.context_length()},
        {"identity", fmt::format("{:016x}", model.identity())},
        {"weight_bytes_per_token", info.weight_bytes},
        {"kernels", kernels_text()},
        {"kv_type", options.kv_type == KvType::f32 ? "f32" : "bf16"},
        {"state_bytes", plan.bytes},
        {"max_tokens", plan.max_tokens},
        {"head", info.head},
        {"layers", layers},
        {"notes", model.notes()}};
    fmt::print("{}\n", json::to_text(json, 2));
}

Status inspect(const InspectArgs& args) {
    if (args.mixers) return print_mixers(args.json);
    BIFOCAL_TRY(const OpenModel open, open_model(args.model));
    const EngineOptions options = engine_options(args.model, open);
    const Model& model = open.model;
    const StatePlan plan = model.decoder().plan_states(
        {options.capacity > 0 ? options.capacity : model.context_length(),
         kv_dtype(options.kv_type)});
    BIFOCAL_TRY_STATUS(check_budget(plan, {}, options));
    if (args.json) {
        print_json(model, plan, options);
    } else {
        print_text(model, plan, options);
    }
    return {};
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<InspectArgs>();
    CLI::App* const sub =
        app.add_subcommand("inspect", "shows layers, weights, states, and what will run and why");
    sub->footer(kExample);
    add_model_options(*sub, args->model);
    add_layout_options(*sub, args->model);
    sub->add_flag("--mixers", args->mixers, "the mixers of this program instead of a model");
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] { exit_status = report(inspect(*args)); });
}

}  // namespace bifocal::cli
