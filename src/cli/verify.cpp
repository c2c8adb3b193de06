// bifocal verify: one text through every path that must agree: chunks of several sizes, token by
// token, beside other sequences in one batch, and saved and restored; and what it would cost to
// keep linear states in BF16. cli/verification.h walks the paths.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "cli/verification.h"
#include "core/json/json.h"
#include "core/progress.h"
#include "core/rng.h"
#include "model/model_spec.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "The reference is the text in chunks of 256. A path drifts when its mean KL is above --max-kl, "
    "a logit is not\nfinite, or a restored session differs by a bit from one that never stopped; "
    "then the exit status is 1.\n'bf16 states' are linear states rounded to BF16 after every "
    "token, against the same tokens one by one with FP32\nstates: what the rounding costs, for "
    "comparison, so it never fails. Layouts without linear states have no such row.\n\n"
    "example:\n"
    "  bifocal verify -f examples/long_text.txt --tokens 2000 \\\n"
    "      --attention sliding_window:window=508,sink_tokens=4";

constexpr int64_t kDefaultTokens = 512;

struct VerifyArgs {
    ModelArgs model;
    TextArgs text;
    int64_t tokens = 0;  // 0: not said
    std::vector<std::string> paths;
    double max_kl = 1e-3;
    bool json = false;
};

// The text's tokens as they are read.
struct VerifyTokens {
    std::vector<int32_t> tokens;
    int64_t of_text = 0;  // tokens of the text itself; fewer than read: it was read again
};

// What is wrong with a path; empty: nothing.
std::string verdict(const Path& path, double max_kl) {
    if (path.drift.not_finite > 0) return "not finite";
    if (path.choice->kind == PathKind::bf16_states) return "";
    if (path.choice->kind == PathKind::restored && path.drift.bit_equal < path.drift.tokens())
        return "bits differ";
    return path.drift.kl.mean() > max_kl ? "drifts" : "";
}

void print_table(const Verification& all, const std::string& layout, const VerifyArgs& args,
                 int64_t of_text) {
    std::vector<std::vector<std::string>> rows = {{"path", "against", "max |Δlogit|", "mean KL",
                                                   "max KL", "same top-1", "same bits", "verdict"}};
    for (const Path& path : all.paths()) {
        const auto share = [&](int64_t count) {
            return fmt::format("{:.2f}%", 100 * static_cast<double>(count) /
                                              static_cast<double>(path.drift.tokens()));
        };
        const bool is_rounded = path.choice->kind == PathKind::bf16_states;
        std::string words = verdict(path, args.max_kl);
        if (words.empty()) words = is_rounded ? "to compare" : "agrees";
        rows.push_back(
            {path.choice->name,
             is_rounded ? "token by token" : fmt::format("chunks of {}", kReferenceChunk),
             fmt::format("{:.3g}", path.drift.max_abs), fmt::format("{:.3g}", path.drift.kl.mean()),
             fmt::format("{:.3g}", path.drift.max_kl), share(path.drift.same_top),
             share(path.drift.bit_equal), words});
    }
    const int64_t n = all.n_tokens();
    fmt::print(
        "{} tokens{} at {}\n\n{}", count_text(n),
        of_text < n ? fmt::format(" (a text of {}, over and over)", count_text(of_text)) : "",
        layout, table(rows));
}

void print_json(const Verification& all, const std::string& layout, const VerifyArgs& args,
                int64_t of_text) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array(), rounded;
    for (const Path& path : all.paths()) {
        nlohmann::ordered_json entry = {
            {"path", path.choice->name},         {"key", path.choice->key},
            {"max_abs", path.drift.max_abs},     {"mean_kl", path.drift.kl.mean()},
            {"max_kl", path.drift.max_kl},       {"same_top", path.drift.same_top},
            {"bit_equal", path.drift.bit_equal}, {"not_finite", path.drift.not_finite}};
        if (path.choice->kind == PathKind::bf16_states) {
            rounded = std::move(entry);
            continue;
        }
        entry["agrees"] = verdict(path, args.max_kl).empty();
        list.push_back(std::move(entry));
    }
    // "bf16_states": against the path token by token; null where there are none
    const nlohmann::ordered_json json = {{"tokens", all.n_tokens()},
                                         {"text_tokens", of_text},
                                         {"attention", layout},
                                         {"exact", args.model.exact},
                                         {"reference_chunk", kReferenceChunk},
                                         {"paths", list},
                                         {"bf16_states", rounded}};
    fmt::print("{}\n", json::to_text(json, 2));
}

// The text's first tokens, again from its begin while there are too few; tokens by chance when
// there is no text. A number that nobody asked for is no reason to read a text twice.
Result<VerifyTokens> tokens_to_verify(const VerifyArgs& args, const Model& model) {
    const int64_t n = args.tokens > 0 ? args.tokens : kDefaultTokens;
    VerifyTokens out;
    if (!args.text.has_text && !args.text.has_file) {
        Rng rng{2};
        for (int64_t i = 0; i < n; ++i)
            out.tokens.push_back(static_cast<int32_t>(rng.below(model.spec().vocab_size)));
        out.of_text = n;
        return out;
    }
    BIFOCAL_TRY(const std::string text, read_text(args.text, "text"));
    BIFOCAL_TRY(const tokenizer::Tokenizer tokenizer, tokenizer_of(model));
    BIFOCAL_TRY(out.tokens,
                tokenizer.encode(text, {.parse_special = false, .reject_invalid = true}));
    if (out.tokens.empty())
        return Error{.what = "the text is empty", .expected = "at least one token"};
    out.of_text = std::ssize(out.tokens);
    if (out.of_text > n || args.tokens > 0) {
        out.tokens.resize(static_cast<size_t>(n));
        for (int64_t i = out.of_text; i < n; ++i) out.tokens[i] = out.tokens[i - out.of_text];
    }
    return out;
}

Result<bool> verify(const VerifyArgs& args) {
    BIFOCAL_TRY(const OpenModel open, open_model(args.model));
    BIFOCAL_TRY(VerifyTokens text, tokens_to_verify(args, open.model));
    const int64_t n = std::ssize(text.tokens);
    const EngineOptions options =
        Verification::with_room(engine_options(args.model, open, n + Verification::kMostAhead));
    BIFOCAL_TRY(Engine engine, Engine::make(open.model, options));
    Verification verification(engine, std::move(text.tokens));
    BIFOCAL_TRY_STATUS(verification.open(args.paths));
    {
        Progress progress("verifying", verification.n_steps(), "tokens of all paths");
        BIFOCAL_TRY_STATUS(verification.run([&](int64_t done) {
            progress.update(done);
            return !interrupted();
        }));
    }
    (args.json ? print_json : print_table)(verification, layout_text(open.model), args,
                                           text.of_text);
    return std::ranges::all_of(
        verification.paths(), [&](const Path& path) { return verdict(path, args.max_kl).empty(); });
}

int run_command(const VerifyArgs& args) {
    catch_interrupts();
    const Result<bool> agrees = verify(args);
    if (interrupted()) {
        fmt::print(stderr, "bifocal: stopped\n");
        return kInterrupted;
    }
    if (!agrees.ok()) return report(agrees.error());
    return *agrees ? 0
                   : report({.what = "paths that must agree drift apart",
                             .hint = "see the last column of the table"});
}

}  // namespace

void add_verify_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<VerifyArgs>();
    CLI::App* const sub =
        app.add_subcommand("verify", "holds the paths through a model against one another");
    sub->footer(kExample);
    add_text_options(*sub, args->text);
    add_model_options(*sub, args->model);
    add_layout_options(*sub, args->model);
    sub->remove_option(sub->get_option("--chunk"));
    sub->add_option("--tokens", args->tokens,
                    fmt::format("tokens to read; a text that is shorter is read again from its "
                                "begin. default: the first {} of the text; without a text, as "
                                "many by chance",
                                kDefaultTokens))
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    for (const PathChoice& choice : path_choices()) args->paths.emplace_back(choice.key);
    sub->add_option("--paths", args->paths,
                    "which paths to walk, separated by commas; long texts take long in all of them")
        ->delimiter(',')
        ->check(CLI::IsMember(args->paths))
        ->capture_default_str();
    sub->add_option("--max-kl", args->max_kl, "mean KL in nats above which a path drifts")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] { exit_status = run_command(*args); });
}

}  // namespace bifocal::cli
