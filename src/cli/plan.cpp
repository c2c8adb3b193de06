// bifocal plan: layouts of a model matched by bytes per sequence: the window that fills a budget,
// what the bytes hold, what does not fit and by how much. Needs no weights, only the shape.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/report.h"
#include "core/json/json.h"
#include "model/shapes.h"
#include "model/source.h"
#include "runtime/budget.h"
#include "runtime/plan.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "example:\n"
    "  bifocal plan --shape qwen3-4b --budget-tokens 576\n"
    "  bifocal plan -m MODEL --mem-per-seq 12MiB --attention bifocal:far=mlstm,sink=learned";

struct PlanArgs {
    std::string path, shape, mem_per_seq, kv_type = "bf16";
    int64_t budget_tokens = 0;
    std::vector<std::string> layouts;
    bool json = false, check = false;
};

struct Refusal {
    std::string layout;
    Error error;
};

struct Plans {
    std::string name;
    ModelSpec model;
    StateOptions options;
    PlanBudget budget;
    std::vector<LayoutPlan> layouts;
    std::vector<Refusal> refusals;  // standard layouts that do not go with the model
    int64_t n_checked = 0;
};

Status check_usage(const PlanArgs& args) {
    const auto one_of = [](const char* what, const char* a, const char* b, bool both) {
        return Error{.what = fmt::format("{} {}", both ? "more than one" : "no", what),
                     .expected = fmt::format("one of {} and {}", a, b),
                     .kind = ErrorKind::usage};
    };
    if (args.path.empty() == args.shape.empty())
        return one_of("model to plan for", "-m MODEL", "--shape NAME", !args.path.empty());
    if (args.mem_per_seq.empty() == (args.budget_tokens == 0))
        return one_of("budget", "--mem-per-seq BYTES", "--budget-tokens N",
                      !args.mem_per_seq.empty());
    return {};
}

Result<ModelSpec> read_spec(const PlanArgs& args) {
    if (!args.shape.empty()) return spec_of_shape(args.shape);
    BIFOCAL_TRY(Source source, std::filesystem::is_directory(args.path) ? open_folder(args.path, 0)
                                                                        : open_gguf(args.path, 0));
    return std::move(source.spec);
}

Result<std::vector<MixerSpec>> wanted_layouts(const PlanArgs& args) {
    if (args.layouts.empty()) return standard_layouts();
    std::vector<MixerSpec> specs;
    for (const std::string& text : args.layouts) {
        if (text.starts_with('@'))
            return Error{.what = "plan takes one mixer for all layers",
                         .where = fmt::format("--attention '{}'", text),
                         .expected = "KIND[:key=value,...]",
                         .kind = ErrorKind::usage};
        BIFOCAL_TRY(specs.emplace_back(), parse_mixer_spec(text));
    }
    return specs;
}

// When not even the cheapest layout fits.
Error nothing_fits(const Plans& plans, bool in_tokens) {
    const auto cheapest = std::ranges::min_element(plans.layouts, {}, &LayoutPlan::bytes);
    const int64_t bytes = cheapest->bytes();
    const auto holds = [&](int64_t tokens) {
        const auto budget = budget_of_tokens(plans.model, plans.options, tokens);
        return budget.ok() && budget->bytes >= bytes;
    };
    const int64_t planned = bytes - cheapest->native.total();
    int64_t tokens = (planned + plans.budget.token_bytes - 1) / plans.budget.token_bytes;
    while (in_tokens && tokens > 1 && holds(tokens - 1)) --tokens;  // padding may hold one
    const std::string least = in_tokens ? fmt::format("--budget-tokens {}", tokens)
                                        : fmt::format("--mem-per-seq {}", bytes);
    return {.what = "the budget is too small",
            .where = cheapest->mixer.to_string(),
            .expected = fmt::format("at least {} bytes per sequence", bytes),
            .got = fmt::format("{}", plans.budget.bytes),
            .hint = least + " is the least that works"};
}

Result<Plans> make_plans(const PlanArgs& args) {
    BIFOCAL_TRY_STATUS(check_usage(args));
    BIFOCAL_TRY(const std::vector<MixerSpec> specs, wanted_layouts(args));
    Plans plans;
    plans.name = args.shape.empty() ? args.path : args.shape;
    BIFOCAL_TRY(plans.model, read_spec(args));
    plans.options = {plans.model.context_length, args.kv_type == "f32" ? DType::f32 : DType::bf16};
    if (args.budget_tokens > 0) {
        BIFOCAL_TRY(plans.budget, budget_of_tokens(plans.model, plans.options, args.budget_tokens));
    } else {
        BIFOCAL_TRY(const int64_t bytes, parse_bytes(args.mem_per_seq));
        BIFOCAL_TRY(plans.budget, budget_of_bytes(plans.model, plans.options, bytes));
    }
    for (const MixerSpec& spec : specs) {
        auto plan = plan_layout(plans.model, plans.options, spec, plans.budget);
        if (plan.ok()) {
            plans.layouts.push_back(*std::move(plan));
        } else if (args.layouts.empty()) {
            plans.refusals.push_back({spec.to_string(), plan.error()});
        } else {
            return plan.error();
        }
    }
    if (plans.layouts.empty())
        return Error{.what = "no layout goes with this model",
                     .got = plans.refusals.front().error.message()};
    if (std::ranges::none_of(plans.layouts, &LayoutPlan::fits))
        return nothing_fits(plans, args.budget_tokens > 0);
    if (args.check) {
        for (const LayoutPlan& plan : plans.layouts) {
            if (!plan.fits()) continue;
            BIFOCAL_TRY_STATUS(check_allocation(plans.model, plans.options, plan));
            ++plans.n_checked;
        }
    }
    return plans;
}

// What the bytes hold, in the order of the table.
struct Part {
    const char* name;
    const char* key;  // in JSON
    int64_t StateParts::*bytes;
};
constexpr Part kParts[] = {
    {"keys and values", "keys_values", &StateParts::keys_values},
    {"states", "states", &StateParts::states},
    {"normalisers", "normalisers", &StateParts::normalisers},
    {"stabilisers", "stabilisers", &StateParts::stabilisers},
    {"convolution tails", "conv_tails", &StateParts::conv_tails},
    {"others", "others", &StateParts::others},
    {"padding", "padding", &StateParts::padding},
};

// 128, 0.02: as many tokens as the bytes would hold.
std::string tokens_text(int64_t bytes, const PlanBudget& budget) {
    if (bytes % budget.token_bytes == 0) return count_text(bytes / budget.token_bytes);
    const double tokens = static_cast<double>(bytes) / static_cast<double>(budget.token_bytes);
    return fmt::format("{:.{}f}", tokens, tokens < 0.01 ? 4 : 2);
}

void print_table(const Plans& plans) {
    std::vector<std::vector<std::string>> rows = {
        {"layout", "window", "counting states only", "tokens", "bytes a layer", "a sequence"}};
    const auto tokens = [&](int64_t bytes) { return tokens_text(bytes, plans.budget); };
    for (const LayoutPlan& plan : plans.layouts) {
        if (!plan.fits()) continue;
        const bool slides = plan.window > 0;
        const int64_t by_states = plan.window_counting_states;
        const int64_t native = plan.native.total();
        rows.push_back({plan.mixer.to_string(), slides ? count_text(plan.window) : "-",
                        !slides          ? "-"
                        : by_states >= 1 ? count_text(by_states)
                                         : fmt::format("infeasible ({})", count_text(by_states)),
                        tokens(plan.bytes() - native), count_text(plan.layer.total()),
                        bytes_text(plan.bytes())});
        for (const Part& part : kParts) {
            const int64_t bytes = plan.sequence.*part.bytes - plan.native.*part.bytes;
            if (bytes > 0 && bytes < plan.bytes())
                rows.push_back({fmt::format("  {}", part.name), "", "", tokens(bytes),
                                count_text(plan.layer.*part.bytes), bytes_text(bytes)});
        }
        if (native > 0)
            rows.push_back({"  native linear layers", "", "", "", "", bytes_text(native)});
    }
    fmt::print("{}", table(rows));
}

// The layouts that are above the budget, each with the least that works and both rules' verdicts.
void print_misfits(const Plans& plans) {
    std::vector<std::vector<std::string>> rows;
    for (const LayoutPlan& plan : plans.layouts) {
        if (plan.fits()) continue;
        const int64_t by_states = plan.window_counting_states;
        const bool slides = plan.window > 0;
        std::string rule = fmt::format("infeasible ({})", count_text(by_states));
        if (by_states >= 1 && slides) rule = fmt::format("window {}", count_text(by_states));
        if (by_states >= 0 && !slides) rule = "fits";
        rows.push_back({"  " + plan.mixer.to_string(),
                        fmt::format("at least {} bytes", count_text(plan.bytes())),
                        fmt::format("{} or {} tokens more", bytes_text(plan.missing_bytes),
                                    count_text(plan.missing_tokens)),
                        "counting states only: " + rule});
    }
    if (!rows.empty()) fmt::print("\ndo not fit:\n{}", list(rows));
}

// Layouts that are refused for one reason stand together.
void print_refusals(const std::vector<Refusal>& refusals) {
    std::vector<std::pair<std::string, std::string>> reasons;  // and the layouts, a line each
    for (const Refusal& refusal : refusals) {
        Error reason = refusal.error;
        reason.where.clear();
        const std::string why = reason.message();
        auto found = std::ranges::find(reasons, why, &std::pair<std::string, std::string>::first);
        if (found == reasons.end()) found = reasons.insert(found, {why, ""});
        found->second += fmt::format("  {}\n", refusal.layout);
    }
    for (const auto& [why, layouts] : reasons)
        fmt::print("\nnot with this model: {}\n{}", why, layouts);
}

std::string heads_text(const LayerContext& layer) {
    if (layer.latent)
        return fmt::format("{} query heads of {}, latent rows of {}", layer.n_heads, layer.head_dim,
                           layer.latent->width());
    return fmt::format("{} query and {} kv heads of {}", layer.n_heads, layer.n_kv_heads,
                       layer.head_dim);
}

void print_text(const Plans& plans) {
    const LayerContext& layer = plans.model.layers.front().context;
    fmt::print(
        "{}",
        list(
            {{"model", plans.name},
             {"shape", fmt::format("{} layers, {}", plans.model.layers.size(), heads_text(layer))},
             {"budget", fmt::format("{} per sequence ({} bytes)", bytes_text(plans.budget.bytes),
                                    count_text(plans.budget.bytes))},
             {"", fmt::format("{} tokens of {} bytes, keys and values in {}",
                              count_text(plans.budget.tokens), count_text(plans.budget.token_bytes),
                              dtype_info(plans.options.kv_dtype).name)}}));
    fmt::print("\n");
    print_table(plans);
    print_misfits(plans);
    print_refusals(plans.refusals);
    if (std::ranges::any_of(plans.layouts, &LayoutPlan::is_longest))
        fmt::print("\nnote: windows end at the trained length, {} tokens\n",
                   count_text(plans.model.context_length));
    if (plans.n_checked > 0)
        fmt::print("\nchecked: {} layouts, equal to the byte\n", plans.n_checked);
}

nlohmann::ordered_json parts_json(const StateParts& parts) {
    nlohmann::ordered_json json = {{"total", parts.total()}};
    for (const Part& part : kParts) json[part.key] = parts.*part.bytes;
    return json;
}

nlohmann::ordered_json layout_json(const LayoutPlan& plan) {
    nlohmann::ordered_json json = {{"attention", plan.mixer.to_string()}, {"fits", plan.fits()}};
    if (plan.window > 0) {
        json["window"] = plan.window;
        json["window_counting_states"] = plan.window_counting_states;
    } else {
        json["tokens_left_counting_states"] = plan.window_counting_states;
    }
    json["state_tokens"] = plan.state_tokens;
    json["layer_bytes"] = parts_json(plan.layer);
    json["sequence_bytes"] = parts_json(plan.sequence);
    json["native_bytes"] = parts_json(plan.native);
    json["missing_bytes"] = plan.missing_bytes;
    json["missing_tokens"] = plan.missing_tokens;
    return json;
}

void print_json(const Plans& plans, bool checks) {
    nlohmann::ordered_json layouts = nlohmann::ordered_json::array();
    for (const LayoutPlan& plan : plans.layouts) layouts.push_back(layout_json(plan));
    nlohmann::ordered_json refused = nlohmann::ordered_json::array();
    for (const Refusal& refusal : plans.refusals)
        refused.push_back({{"attention", refusal.layout}, {"why", refusal.error.message()}});
    nlohmann::ordered_json json = {
        {"model", plans.name},
        {"n_layers", plans.model.layers.size()},
        {"kv_type", std::string(dtype_info(plans.options.kv_dtype).name)},
        {"budget",
         {{"bytes", plans.budget.bytes},
          {"tokens", plans.budget.tokens},
          {"token_bytes", plans.budget.token_bytes}}},
        {"layouts", layouts},
        {"refused", refused}};
    if (checks) json["checked"] = plans.n_checked;
    fmt::print("{}\n", json::to_text(json, 2));
}

int plan_command(const PlanArgs& args) {
    const Result<Plans> plans = make_plans(args);
    if (!plans.ok()) return report(plans.error());
    if (args.json) {
        print_json(*plans, args.check);
    } else {
        print_text(*plans);
    }
    return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<PlanArgs>();
    CLI::App* const sub = app.add_subcommand(
        "plan", "matches layouts by bytes per sequence: windows, parts, what does not fit");
    sub->footer(kExample);
    sub->add_option("-m,--model", args->path, "a .gguf file or a Hugging Face folder");
    sub->add_option("--shape", args->shape, "a public model's shape by name, instead of a file");
    sub->add_option("--mem-per-seq", args->mem_per_seq, "the budget: bytes per sequence (72MiB)");
    sub->add_option("--budget-tokens", args->budget_tokens,
                    "the budget: what full attention keeps for so many tokens")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
    sub->add_option("--kv-type", args->kv_type, "what keys and values are kept in: bf16 or f32")
        ->check(CLI::IsMember({"bf16", "f32"}))
        ->capture_default_str();
    sub->add_option("--attention", args->layouts,
                    "plan this layout, as in 'run', instead of the standard list; may be given "
                    "several times")
        ->allow_extra_args(false);
    sub->add_flag("--check", args->check, "allocate each layout that fits and compare the bytes");
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] { exit_status = plan_command(*args); });
}

}  // namespace bifocal::cli
