#include "cli/model_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "model/model_spec.h"
#include "model/source.h"
#include "runtime/budget.h"

namespace bifocal::cli {
namespace {

constexpr const char* kDefaultModel = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr int64_t kDefaultSinks = 4;

std::string not_empty(const std::string& text) {
    return text.empty() ? "a layout cannot be empty" : "";
}

std::vector<std::string> default_places() {
    std::vector<std::string> places;
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
        places.push_back(fmt::format("{}/bifocal/models/{}", cache, kDefaultModel));
    else if (const char* home = std::getenv("HOME"); home && *home)
        places.push_back(fmt::format("{}/.cache/bifocal/models/{}", home, kDefaultModel));
    places.push_back(fmt::format("./.cache/models/{}", kDefaultModel));
    return places;
}

// --mem-per-seq: the layout whose window is the largest one that fits, or the one that was given
// when it says its window itself.
Result<std::string> layout_for_budget(const std::string& path, const ModelArgs& args,
                                      KvType kv_type, int64_t budget) {
    const std::string text = args.attention.empty()
                                 ? fmt::format("sliding_window:sink_tokens={}", kDefaultSinks)
                                 : args.attention;
    if (text.starts_with("@")) return text;
    BIFOCAL_TRY(MixerSpec mixer, parse_mixer_spec(text));
    if (mixer.kind == "full_attention" || mixer.options.contains("window")) return text;
    BIFOCAL_TRY(const Source source, std::filesystem::is_directory(path)
                                         ? open_folder(path, args.capacity)
                                         : open_gguf(path, args.capacity));
    const auto sinks = mixer.options.value("sink_tokens", nlohmann::json(0));
    const int64_t n_sinks = sinks.is_number_integer() ? sinks.get<int64_t>() : 0;
    // A window longer than what the model was trained on would cost memory and gain nothing.
    const int64_t longest = std::max<int64_t>(1, source.spec.context_length - n_sinks);
    const StateOptions options{source.spec.context_length,
                               kv_type == KvType::f32 ? DType::f32 : DType::bf16};
    BIFOCAL_TRY(mixer, fit_window(source.spec, std::move(mixer), options, budget, longest));
    return mixer.to_string();
}

}  // namespace

void add_model_options(CLI::App& app, ModelArgs& args) {
    app.add_option("-m,--model", args.path,
                   "a .gguf file or a Hugging Face folder; default: $BIFOCAL_MODEL, else the model "
                   "that './dev demo' fetches");
    app.add_option("-c,--ctx-size", args.capacity,
                   "most tokens of the sequence; sizes full attention")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    app.add_option("-t,--threads", args.threads, "threads; default: one per core")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--exact", args.exact, "FP32 activations, weights and keys and values");
    app.add_option("--kv-type", args.kv_type, "what keys and values are kept in: bf16 or f32")
        ->check(CLI::IsMember({"bf16", "f32"}));
    app.add_option("--sink-logits", args.sink_logits,
                   "safetensors file with the logits of sink=learned");
    app.add_option("--chunk", args.chunk, "prompt tokens that go through the layers together")
        ->check(CLI::Range(1, 8192))
        ->capture_default_str();
}

void add_layout_options(CLI::App& app, ModelArgs& args) {
    app.add_option("--attention", args.attention,
                   "layout of every layer that is not natively linear: full, "
                   "sliding_window:window=508,sink_tokens=4; or @layout.json, which says each "
                   "layer; default: the checkpoint's own")
        ->check(not_empty);
    app.add_option("--mem-per-seq", args.mem_per_seq,
                   "bytes per sequence (12MiB): the largest window that fits, or a ceiling for "
                   "the layout given");
}

void add_checkpoint_options(CLI::App& app, ModelArgs& args) {
    CLI::Option* const bytes =
        app.add_option("--checkpoint-mem", args.checkpoint_mem,
                       "bytes per sequence (64MiB) for copies of its state, so that it can go back "
                       "where the layout cannot; counted in --mem-per-seq");
    app.add_option("--checkpoint-every-n-tokens", args.checkpoint_every,
                   "tokens, at least, from one copy to the next")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->needs(bytes)
        ->capture_default_str();
}

Result<std::string> find_model(const std::string& path) {
    if (!path.empty()) return path;
    if (const char* named = std::getenv("BIFOCAL_MODEL"); named && *named)
        return std::string(named);
    const std::vector<std::string> places = default_places();
    for (const std::string& place : places)
        if (std::filesystem::exists(place)) return place;
    return Error{
        .what = "no model",
        .expected = fmt::format("-m MODEL, $BIFOCAL_MODEL, or one of {}", fmt::join(places, ", ")),
        .hint = "./dev demo fetches one"};
}

Result<OpenModel> open_model(const ModelArgs& args, std::optional<KvType> kv_type) {
    BIFOCAL_TRY(const std::string path, find_model(args.path));
    KvType kv = kv_type.value_or(args.exact ? KvType::f32 : KvType::bf16);
    if (!args.kv_type.empty()) kv = args.kv_type == "f32" ? KvType::f32 : KvType::bf16;
    ModelOptions options{.attention = args.attention,
                         .exact = args.exact,
                         .sink_logits = args.sink_logits,
                         .tokens = args.capacity};
    int64_t budget = 0, checkpoints = 0;
    if (!args.checkpoint_mem.empty()) {
        BIFOCAL_TRY(checkpoints, parse_bytes(args.checkpoint_mem));
    }
    if (!args.mem_per_seq.empty()) {
        BIFOCAL_TRY(budget, parse_bytes(args.mem_per_seq));
        auto layout = layout_for_budget(path, args, kv, budget - checkpoints);
        if (!layout.ok() && checkpoints > 0)
            layout.error().hint =
                fmt::format("{} of these {} bytes are for --checkpoint-mem", checkpoints, budget);
        BIFOCAL_TRY(options.attention, std::move(layout));
    }
    BIFOCAL_TRY(Model model, Model::load(path, options));
    return OpenModel{std::move(model), kv, budget, checkpoints};
}

EngineOptions engine_options(const ModelArgs& args, const OpenModel& open, int64_t capacity) {
    EngineOptions options;
    options.kv_type = open.kv_type;
    options.capacity = args.capacity > 0 ? args.capacity : capacity;
    options.max_tokens = args.capacity > 0 ? args.capacity : -1;
    options.max_bytes_per_sequence = open.budget;
    options.checkpoint_bytes = open.checkpoint_bytes;
    options.checkpoint_every = args.checkpoint_every;
    options.chunk = args.chunk;
    options.n_threads = args.threads;
    return options;
}

std::string layout_text(const Model& model) {
    std::vector<std::string> kinds;
    for (const LayerInfo& layer : model.info().layers)
        if (std::ranges::find(kinds, layer.mixer) == kinds.end()) kinds.push_back(layer.mixer);
    return fmt::format("{}", fmt::join(kinds, " + "));
}

void print_notes(const Model& model) {
    for (const std::string& note : model.notes()) fmt::print(stderr, "note: {}\n", note);
}

}  // namespace bifocal::cli
