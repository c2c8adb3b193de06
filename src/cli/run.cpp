// bifocal run: a prompt in, its continuation out. Flags → model → session → prefill → generate,
// then what it took in time and memory. Text goes to standard output, everything else to standard
// error.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/memory_report.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/sampling_args.h"
#include "cli/text_input.h"
#include "core/json/json.h"
#include "core/progress.h"
#include "runtime/generate.h"
#include "runtime/snapshot.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "example:\n"
    "  bifocal run -p 'The three primary colours are' -n 32 --temp 0\n"
    "  bifocal run -f examples/document.txt -n 96 --attention "
    "sliding_window:window=508,sink_tokens=4";

struct RunArgs {
    ModelArgs model;
    SamplingArgs sampling;
    TextArgs prompt;
    std::string save_state, load_state, template_file, system;
    int64_t n = 256;
    bool chat = false, json = false;
};

struct Outcome {
    std::string text;
    int64_t prompt_tokens = 0;
    double prompt_seconds = 0;
    Generation generation;
    MemoryReport memory;
    uint64_t seed = 0;
};

Result<std::string> prompt_text(const RunArgs& args) {
    const bool may_be_empty = !args.load_state.empty();
    if (may_be_empty && !args.prompt.has_text && !args.prompt.has_file) return std::string();
    BIFOCAL_TRY(std::string text, read_text(args.prompt, "prompt"));
    // An editor's newline at the end of a file is not part of the text.
    if (!args.prompt.has_text && text.ends_with('\n')) text.pop_back();
    if (text.empty() && !may_be_empty)
        return Error{.what = "the prompt is empty",
                     .expected = "at least one character with -p, -f or on standard input"};
    return text;
}

Result<std::vector<int32_t>> prompt_tokens(const RunArgs& args, const Model& model,
                                           const tokenizer::Tokenizer& tokenizer,
                                           const std::string& text) {
    if (args.chat && !text.empty()) {
        BIFOCAL_TRY(const ChatPrompt prompt, ChatPrompt::make(model, args.template_file));
        nlohmann::ordered_json messages = nlohmann::ordered_json::array();
        if (!args.system.empty()) messages.push_back(chat_message("system", args.system));
        messages.push_back(chat_message("user", text));
        BIFOCAL_TRY(const Rendered rendered, prompt.render(messages, true));
        return prompt.encode(rendered, 0);
    }
    const bool is_first = args.load_state.empty();
    BIFOCAL_TRY(auto tokens, tokenizer.encode(text, {.add_special = is_first,
                                                     .parse_special = true,
                                                     .reject_invalid = true}));
    if (tokens.empty() && is_first)
        return Error{.what = "the prompt is empty", .got = "a text without tokens"};
    return tokens;
}

// Full attention is given room for what will be read and written, but no more than the model was
// trained for unless -c says so. A session that moves between runs gets all of it.
int64_t default_capacity(const RunArgs& args, const Model& model, int64_t prompt,
                         const std::optional<SnapshotInfo>& saved) {
    if (saved) return saved->capacity;
    const int64_t trained = model.context_length();
    if (args.n < 0 || !args.save_state.empty()) return trained;
    return std::min(trained, prompt + args.n);
}

class Run {
  public:
    explicit Run(const RunArgs& args) : args_(args) {}

    Result<Outcome> run() {
        BIFOCAL_TRY(const std::string text, prompt_text(args_));
        BIFOCAL_TRY(const ops::SamplingOptions sampling, sampling_options(args_.sampling));
        std::optional<SnapshotInfo> saved;
        if (!args_.load_state.empty()) {
            BIFOCAL_TRY(saved, read_snapshot_info(args_.load_state));
        }
        BIFOCAL_TRY(const OpenModel open,
                    open_model(args_.model, saved ? std::optional(saved->kv_type) : std::nullopt));
        const Model& model = open.model;
        print_notes(model);
        BIFOCAL_TRY(const tokenizer::Tokenizer tokenizer, tokenizer_of(model));
        BIFOCAL_TRY(const auto tokens, prompt_tokens(args_, model, tokenizer, text));
        const int64_t n_prompt = std::ssize(tokens);
        BIFOCAL_TRY(
            Engine engine,
            Engine::make(model, engine_options(args_.model, open,
                                               default_capacity(args_, model, n_prompt, saved))));
        BIFOCAL_TRY(Session session, engine.new_session());
        ops::Sampler sampler(sampling);
        tokenizer::StreamingDecoder stream(tokenizer, true);
        if (saved) {
            BIFOCAL_TRY_STATUS(restore(session, tokenizer, sampler, stream));
        }
        outcome_.seed = sampler.options.seed;
        for (const int32_t token : tokens) sampler.accept(token);
        BIFOCAL_TRY_STATUS(read_prompt(session, tokens));
        if (!interrupted()) {
            BIFOCAL_TRY_STATUS(write_answer(session, sampler, stream, model));
        }
        if (!args_.save_state.empty()) {
            GenerationState around;
            around.sampler = sampler;
            around.stream = stream.state();
            around.tokenizer_identity = tokenizer.identity();
            BIFOCAL_TRY_STATUS(save_snapshot(session, around, args_.save_state));
        }
        if (!args_.json) print_text(stream.flush() + "\n");
        outcome_.memory = session.memory();
        layout_ = layout_text(model);
        return outcome_;
    }

    const std::string& layout() const { return layout_; }

  private:
    Status restore(Session& session, const tokenizer::Tokenizer& tokenizer, ops::Sampler& sampler,
                   tokenizer::StreamingDecoder& stream) {
        BIFOCAL_TRY(GenerationState around,
                    load_snapshot(session, args_.load_state, tokenizer.identity()));
        if (around.sampler) {
            BIFOCAL_TRY(sampler, restored_sampler(std::move(*around.sampler), args_.sampling));
        }
        if (around.stream) stream.set_state(std::move(*around.stream));
        return {};
    }

    Status read_prompt(Session& session, const std::vector<int32_t>& tokens) {
        outcome_.prompt_tokens = std::ssize(tokens);
        if (tokens.empty()) {
            if (session.logits().empty())
                return Error{.what = "the saved session has nothing to go on from",
                             .hint = "give a prompt with -p or -f"};
            return {};
        }
        const auto begin = std::chrono::steady_clock::now();
        Status status;
        {
            Progress progress("reading", outcome_.prompt_tokens, "tokens");
            status = session.prefill(tokens, [&](int64_t done) {
                progress.update(done);
                return !interrupted();
            });
        }
        outcome_.prompt_seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return status;
    }

    Status write_answer(Session& session, ops::Sampler& sampler,
                        tokenizer::StreamingDecoder& stream, const Model& model) {
        GenerateOptions options;
        options.max_tokens = args_.n;
        options.read_last = !args_.save_state.empty();
        options.stop_tokens = model.stop_tokens();
        options.never_stops = args_.sampling.ignore_eos;
        options.should_stop = interrupted;
        options.on_text = [&](std::string_view piece) {
            outcome_.text += piece;
            if (!args_.json) print_text(piece);
        };
        BIFOCAL_TRY(outcome_.generation, generate(session, sampler, stream, options));
        return {};
    }

    static void print_text(std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
    }

    const RunArgs& args_;
    Outcome outcome_;
    std::string layout_;
};

void print_json(const Outcome& outcome, const std::string& layout) {
    const Generation& answer = outcome.generation;
    const nlohmann::ordered_json json = {
        {"text", outcome.text},
        {"tokens", answer.tokens},
        {"stop_reason", std::string(stop_reason_name(answer.reason))},
        {"logit_hash", fmt::format("{:016x}", answer.logits_hash)},
        {"seed", outcome.seed},
        {"layout", layout},
        {"prompt",
         {{"tokens", outcome.prompt_tokens},
          {"seconds", outcome.prompt_seconds},
          {"tokens_per_second", per_second(outcome.prompt_tokens, outcome.prompt_seconds)}}},
        {"answer",
         {{"tokens", answer.tokens.size()},
          {"seconds", answer.seconds},
          {"tokens_per_second", per_second(answer.n_steps, answer.seconds)}}},
        {"memory", memory_json(outcome.memory)}};
    fmt::print("{}\n", json::to_text(json, 2));
}

void print_summary(const Outcome& outcome, const std::string& layout) {
    const Generation& answer = outcome.generation;
    std::vector<std::vector<std::string>> rows;
    rows.push_back({"prompt", speed_text(outcome.prompt_tokens, outcome.prompt_seconds)});
    std::string written = fmt::format("{} tokens", count_text(std::ssize(answer.tokens)));
    if (answer.n_steps > 0)
        written += fmt::format(", {:.1f} tokens/s", per_second(answer.n_steps, answer.seconds));
    rows.push_back({"answer", written});
    if (answer.reason == StopReason::full)
        rows.push_back({"stopped", fmt::format("after {} tokens the context is full; -c makes it "
                                               "longer, a window makes it endless",
                                               count_text(outcome.memory.position))});
    rows.push_back({"layout", layout});
    for (auto& row : memory_rows(outcome.memory)) rows.push_back(std::move(row));
    fmt::print(stderr, "\n{}", list(rows));
}

int run_command(const RunArgs& args) {
    catch_interrupts();
    Run run(args);
    const Result<Outcome> outcome = run.run();
    if (!outcome.ok()) {
        if (interrupted()) {
            fmt::print(stderr, "bifocal: stopped\n");
            return kInterrupted;
        }
        return report(outcome.error());
    }
    if (args.json) {
        print_json(*outcome, run.layout());
    } else {
        print_summary(*outcome, run.layout());
    }
    return interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<RunArgs>();
    CLI::App* const sub = app.add_subcommand("run", "continues a text");
    sub->footer(kExample);
    add_text_options(*sub, args->prompt);
    add_model_options(*sub, args->model);
    add_layout_options(*sub, args->model);
    add_checkpoint_options(*sub, args->model);
    sub->add_option("-n,--predict,--n-predict", args->n,
                    "tokens to write; -1: until the model ends")
        ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40))
        ->capture_default_str();
    add_sampling_options(*sub, args->sampling);
    CLI::Option* const chat = sub->add_flag(
        "--chat", args->chat, "the prompt is one user message in the model's chat template");
    sub->add_option("--system", args->system, "system message of --chat")->needs(chat);
    sub->add_option("--chat-template-file", args->template_file, "Jinja template for --chat")
        ->needs(chat);
    sub->add_option("--save-state", args->save_state, "file to save the session to at the end");
    sub->add_option("--load-state", args->load_state,
                    "saved session to go on from; the prompt may be empty");
    sub->add_flag("--json", args->json, "one JSON object instead of text");
    sub->callback([args, &exit_status] { exit_status = run_command(*args); });
}

}  // namespace bifocal::cli
