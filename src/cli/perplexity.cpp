// bifocal perplexity: what a layout costs on a text. One pass over the first N tokens; every token
// but the first is scored by what the model expected before it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/memory_report.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "core/json/json.h"
#include "core/progress.h"
#include "ops/sampling.h"
#include "runtime/scoring.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "One pass over the first --ctx tokens of the text, as the tokenizer gives them (with BOS where "
    "the model wants it);\n"
    "the first token is not scored. NLL is the mean over scored tokens in nats, with its standard "
    "error; ppl = exp(NLL).\n"
    "With --per-token, 'logprob' and 'top' are what the model expected in that token's place.\n\n"
    "example:\n"
    "  bifocal perplexity -f examples/long_text.txt --ctx 2048 --attention full \\\n"
    "      --attention sliding_window:window=512 --attention "
    "sliding_window:window=508,sink_tokens=4";

struct PerplexityArgs {
    ModelArgs model;
    TextArgs text;
    std::vector<std::string> layouts;
    int64_t ctx = 0;
    bool per_token = false, json = false;
};

struct TokenScore {
    int32_t id = 0;
    std::optional<double> log_probability;  // none: not scored
    std::optional<int32_t> top;             // likeliest token in this place
};

struct LayoutScore {
    std::string layout;
    Average nll;
    int64_t state_bytes = 0;
    double seconds = 0;
    std::vector<TokenScore> tokens;
};

// The first `ctx` tokens of the text.
Result<std::vector<int32_t>> read_tokens(const PerplexityArgs& args, const Model& model) {
    BIFOCAL_TRY(const std::string text, read_text(args.text, "text"));
    BIFOCAL_TRY(const tokenizer::Tokenizer tokenizer, tokenizer_of(model));
    BIFOCAL_TRY(auto tokens,
                tokenizer.encode(text, {.parse_special = false, .reject_invalid = true}));
    const int64_t n = std::ssize(tokens);
    if (n < 2)
        return Error{.what = "the text is too short",
                     .expected = "at least 2 tokens",
                     .got = fmt::format("{}", n)};
    if (args.ctx > n)
        return Error{.what = "the text is shorter than --ctx",
                     .expected = fmt::format("at least {} tokens", args.ctx),
                     .got = fmt::format("{}", n)};
    if (args.ctx == 0 && n > model.context_length())
        fmt::print(stderr, "note: {} tokens, more than the {} the model was trained on\n", n,
                   model.context_length());
    if (args.ctx > 0) tokens.resize(static_cast<size_t>(args.ctx));
    return tokens;
}

Result<LayoutScore> score_layout(const PerplexityArgs& args, const std::string& layout,
                                 std::vector<int32_t>& tokens) {
    ModelArgs model_args = args.model;
    model_args.attention = layout;
    BIFOCAL_TRY(const OpenModel open, open_model(model_args));
    if (tokens.empty()) {
        BIFOCAL_TRY(tokens, read_tokens(args, open.model));
    }
    EngineOptions options = engine_options(model_args, open, std::ssize(tokens));
    options.scores = true;
    BIFOCAL_TRY(Engine engine, Engine::make(open.model, options));
    BIFOCAL_TRY(Session session, engine.new_session());
    LayoutScore score;
    score.layout = layout_text(open.model);
    score.state_bytes = engine.state_bytes();
    const int64_t n = std::ssize(tokens), vocab = engine.vocab_size();
    if (args.per_token) {
        score.tokens.resize(tokens.size());
        for (int64_t i = 0; i < n; ++i) score.tokens[i].id = tokens[i];
    }
    const auto begin = std::chrono::steady_clock::now();
    Progress progress(layout.empty() ? "scoring" : layout, n, "tokens");
    BIFOCAL_TRY_STATUS(session.score(tokens, [&](int64_t at, std::span<const float> logits) {
        const int64_t rows = std::ssize(logits) / vocab;
        for (int64_t i = 0; i < rows; ++i) {
            const std::span<const float> row = logits.subspan(i * vocab, vocab);
            const int64_t next = at + i + 1;
            if (next == n) break;
            const double log_p = log_probability(row, tokens[next]);
            score.nll.add(-log_p);
            if (!args.per_token) continue;
            score.tokens[next].log_probability = log_p;
            score.tokens[next].top = ops::argmax(row);
        }
        progress.update(at + rows);
        return !interrupted();
    }));
    score.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return score;
}

void print_json(const std::vector<LayoutScore>& scores, int64_t n) {
    nlohmann::ordered_json layouts = nlohmann::ordered_json::array();
    for (const LayoutScore& score : scores) {
        nlohmann::ordered_json entry = {{"attention", score.layout},
                                        {"nll", score.nll.mean()},
                                        {"standard_error", score.nll.standard_error()},
                                        {"ppl", std::exp(score.nll.mean())},
                                        {"scored", score.nll.count()},
                                        {"state_bytes", score.state_bytes},
                                        {"seconds", score.seconds}};
        if (!score.tokens.empty()) {
            nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
            for (const TokenScore& token : score.tokens) {
                nlohmann::ordered_json log_p, top;  // null: the first token
                if (token.log_probability) log_p = *token.log_probability;
                if (token.top) top = *token.top;
                tokens.push_back({{"id", token.id}, {"logprob", log_p}, {"top", top}});
            }
            entry["per_token"] = std::move(tokens);
        }
        layouts.push_back(std::move(entry));
    }
    const nlohmann::ordered_json json = {{"tokens", n}, {"layouts", layouts}};
    fmt::print("{}\n", json::to_text(json, 1));
}

void print_table(const std::vector<LayoutScore>& scores, int64_t n) {
    std::vector<std::vector<std::string>> rows = {
        {"attention", "NLL", "± s.e.", "ppl", "against first", "state per sequence", "tokens/s"}};
    for (const LayoutScore& score : scores)
        rows.push_back({score.layout, fmt::format("{:.4f}", score.nll.mean()),
                        fmt::format("{:.4f}", score.nll.standard_error()),
                        fmt::format("{:.3f}", std::exp(score.nll.mean())),
                        &score == scores.data()
                            ? "-"
                            : fmt::format("{:+.4f}", score.nll.mean() - scores[0].nll.mean()),
                        bytes_text(score.state_bytes),
                        fmt::format("{:.1f}", per_second(n, score.seconds))});
    fmt::print("{} tokens, {} scored\n\n{}", count_text(n), count_text(n - 1), table(rows));
}

Status perplexity(const PerplexityArgs& args) {
    if (args.per_token && !args.json)
        return Error{.what = "--per-token needs --json", .kind = ErrorKind::usage};
    if (!args.model.mem_per_seq.empty() && args.layouts.size() > 1)
        return Error{.what = "--mem-per-seq takes one --attention", .kind = ErrorKind::usage};
    std::vector<int32_t> tokens;
    std::vector<LayoutScore> scores;
    for (const std::string& layout : args.layouts) {
        BIFOCAL_TRY(LayoutScore score, score_layout(args, layout, tokens));
        scores.push_back(std::move(score));
    }
    if (args.json) {
        print_json(scores, std::ssize(tokens));
    } else {
        print_table(scores, std::ssize(tokens));
    }
    return {};
}

}  // namespace

void add_perplexity_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<PerplexityArgs>();
    args->model.chunk = 128;
    CLI::App* const sub =
        app.add_subcommand("perplexity", "how well a model at a layout expects a text");
    sub->footer(kExample);
    add_text_options(*sub, args->text);
    add_model_options(*sub, args->model);
    sub->add_option("--attention", args->layouts,
                    "layout, as in 'run'; may be given several times, for one table")
        ->allow_extra_args(false);
    sub->add_option("--mem-per-seq", args->model.mem_per_seq,
                    "bytes per sequence: the largest window that fits");
    sub->add_option("--ctx", args->ctx, "tokens of the text to read; 0: all of them")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
    sub->add_flag("--per-token", args->per_token,
                  "with --json: id, log-probability and the likeliest next token at each position");
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] {
        catch_interrupts();
        if (args->layouts.empty()) args->layouts.emplace_back();
        const Status status = perplexity(*args);
        if (!status.ok() && interrupted()) {
            fmt::print(stderr, "bifocal: stopped\n");
            exit_status = kInterrupted;
        } else {
            exit_status = report(status);
        }
    });
}

}  // namespace bifocal::cli
