// bifocal chat: a conversation on the terminal. Lines that begin with '/' are commands. Ctrl-C
// stops the answer and keeps the chat.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/memory_report.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/sampling_args.h"
#include "core/progress.h"
#include "formats/unicode/utf8.h"
#include "runtime/snapshot.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "example:\n"
    "  bifocal chat --attention sliding_window:window=508,sink_tokens=4";

constexpr const char* kHelp =
    "/save FILE   save the conversation         /memory     what it takes\n"
    "/load FILE   go on with a saved one        /reset      forget it\n"
    "/fork        go on in a copy               /switch N   to another copy\n"
    "/undo        take the last turn back       /help       this text\n"
    "/quit        or Ctrl-D\n"
    "A line that ends in \\ goes on in the next one; //text sends /text. Ctrl-C stops an answer.\n";

constexpr int64_t kMaxBranches = 16;

struct ChatArgs {
    ModelArgs model;
    SamplingArgs sampling;
    std::string system, template_file, load_state, save_state;
    int64_t n = -1;
};

class Chat {
  public:
    Chat(const ChatArgs& args, Engine& engine, const Model& model)
        : args_(args), engine_(engine), model_(model) {}

    Status start() {
        BIFOCAL_TRY(const ops::SamplingOptions sampling, sampling_options(args_.sampling));
        BIFOCAL_TRY(ChatPrompt prompt, ChatPrompt::make(model_, args_.template_file));
        prompt_ = std::make_unique<ChatPrompt>(std::move(prompt));
        BIFOCAL_TRY(Session session, engine_.new_session());
        branches_.emplace_back(std::move(session), *prompt_, model_, sampling, args_.system);
        return args_.load_state.empty() ? Status{} : current().load(args_.load_state);
    }

    int loop() {
        if (editor_.is_terminal())
            fmt::print("{}, {} per sequence. /help says what else there is.\n", layout_text(model_),
                       bytes_text(engine_.bytes_per_sequence()));
        while (!done_) {
            clear_interrupt();
            std::string text;
            const auto event = read_message(text);
            if (event == LineEditor::Event::end) break;
            if (event == LineEditor::Event::interrupted || text.empty()) continue;
            if (text[0] == '/' && !text.starts_with("//")) {
                note_failure(run_command(text));
            } else {
                note_failure(answer(text[0] == '/' ? text.substr(1) : text));
            }
        }
        if (!args_.save_state.empty()) note_failure(current().save(args_.save_state));
        // A person saw what went wrong and went on; a script must be told.
        return editor_.is_terminal() ? 0 : exit_status_;
    }

  private:
    Conversation& current() { return branches_[at_]; }

    void note_failure(const Status& status) {
        if (!status.ok()) exit_status_ = report(status);
    }

    LineEditor::Event read_message(std::string& text) {
        std::string line;
        const std::string prompt =
            branches_.size() > 1 ? fmt::format("{}> ", at_ + 1) : std::string("> ");
        auto event = editor_.read(prompt, line);
        text = line;
        while (event == LineEditor::Event::line && text.ends_with('\\')) {
            text.back() = '\n';
            event = editor_.read("  ", line);
            if (event == LineEditor::Event::line) text += line;
        }
        return event;
    }

    Status answer(const std::string& text) {
        if (const size_t at = unicode::find_invalid(text); at != std::string::npos)
            return Error{.what = "the message is not valid UTF-8",
                         .got = fmt::format("byte 0x{:02x} at offset {}",
                                            static_cast<unsigned char>(text[at]), at)};
        std::unique_ptr<Progress> progress;
        ReplyOptions options;
        options.max_tokens = args_.n;
        options.never_stops = args_.sampling.ignore_eos;
        options.should_stop = interrupted;
        options.on_read = [&](int64_t done, int64_t total) {
            if (!progress) progress = std::make_unique<Progress>("reading", total, "tokens");
            progress->update(done);
            return !interrupted();
        };
        options.on_text = [&](std::string_view piece) {
            progress.reset();
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
        };
        const Result<Reply> reply = current().say(text, options);
        if (!reply.ok()) {
            if (!interrupted()) return reply.error();
            fmt::print(stderr, "stopped; the message was not taken in\n");
            return {};
        }
        fmt::print("\n");
        std::fflush(stdout);
        print_facts(*reply);
        return {};
    }

    void print_facts(const Reply& reply) {
        if (reply.reread)
            fmt::print(stderr,
                       "note: earlier turns changed, so all {} tokens were read again; "
                       "--checkpoint-mem keeps what a session can go back to\n",
                       count_text(reply.read_tokens));
        if (reply.generation.reason == StopReason::full)
            fmt::print(stderr,
                       "note: the context is full after {} tokens; /reset forgets it, -c makes it "
                       "longer, a window makes it endless\n",
                       count_text(current().session().position()));
        if (!editor_.is_terminal()) return;
        fmt::print(stderr, "[{} read, {} written, {:.1f} tokens/s]\n",
                   count_text(reply.read_tokens), count_text(std::ssize(reply.generation.tokens)),
                   per_second(reply.generation.n_steps, reply.generation.seconds));
    }

    Status run_command(const std::string& line) {
        const size_t space = line.find(' ');
        const std::string name = line.substr(1, space - 1);
        std::string argument;
        if (space != std::string::npos) {
            const size_t begin = line.find_first_not_of(' ', space);
            if (begin != std::string::npos) argument = line.substr(begin);
        }
        const bool takes_argument = name == "save" || name == "load" || name == "switch";
        if (takes_argument == argument.empty() && is_command(name))
            return Error{.what = fmt::format("/{} takes {}", name,
                                             takes_argument ? "one argument" : "no argument"),
                         .kind = ErrorKind::usage};
        if (name == "save") return save(argument);
        if (name == "load") return current().load(argument);
        if (name == "fork") return fork();
        if (name == "switch") return switch_to(argument);
        if (name == "memory") return print_memory();
        if (name == "undo") return current().undo();
        if (name == "reset") {
            current().reset();
            return {};
        }
        if (name == "help") {
            fmt::print("{}", kHelp);
            return {};
        }
        if (name == "quit" || name == "exit") {
            done_ = true;
            return {};
        }
        return Error{.what = fmt::format("unknown command '/{}'", name),
                     .hint = "/help lists the commands, //text sends /text",
                     .kind = ErrorKind::usage};
    }

    static bool is_command(const std::string& name) {
        for (const char* known :
             {"save", "load", "fork", "switch", "memory", "undo", "reset", "help", "quit", "exit"})
            if (name == known) return true;
        return false;
    }

    Status save(const std::string& path) {
        BIFOCAL_TRY_STATUS(current().save(path));
        fmt::print(stderr, "saved {} messages, {} tokens\n", current().n_messages(),
                   count_text(current().session().position()));
        return {};
    }

    Status fork() {
        BIFOCAL_TRY(Conversation copy, current().fork());
        branches_.push_back(std::move(copy));
        fmt::print(stderr, "copy {} of conversation {}; /switch {} goes back\n", branches_.size(),
                   at_ + 1, at_ + 1);
        at_ = branches_.size() - 1;
        return {};
    }

    Status switch_to(const std::string& argument) {
        const int64_t n = std::atoll(argument.c_str());
        if (n < 1 || n > std::ssize(branches_))
            return Error{.what = "no such conversation",
                         .expected = fmt::format("1 to {}", branches_.size()),
                         .got = argument,
                         .kind = ErrorKind::usage};
        at_ = static_cast<size_t>(n - 1);
        return {};
    }

    Status print_memory() {
        std::vector<std::vector<std::string>> rows;
        rows.push_back({"layout", layout_text(model_)});
        for (auto& row : memory_rows(current().session().memory())) rows.push_back(std::move(row));
        if (branches_.size() > 1)
            rows.push_back({"conversations", fmt::format("{}, {} together", branches_.size(),
                                                         bytes_text(engine_.bytes_per_sequence() *
                                                                    std::ssize(branches_)))});
        fmt::print("{}", list(rows));
        std::fflush(stdout);
        return {};
    }

    const ChatArgs& args_;
    Engine& engine_;
    const Model& model_;
    LineEditor editor_;
    std::unique_ptr<ChatPrompt> prompt_;
    std::vector<Conversation> branches_;
    size_t at_ = 0;
    bool done_ = false;
    int exit_status_ = 0;
};

Result<int> chat(const ChatArgs& args) {
    std::optional<SnapshotInfo> saved;
    if (!args.load_state.empty()) {
        BIFOCAL_TRY(saved, read_snapshot_info(args.load_state));
    }
    BIFOCAL_TRY(const OpenModel open,
                open_model(args.model, saved ? std::optional(saved->kv_type) : std::nullopt));
    print_notes(open.model);
    EngineOptions options = engine_options(args.model, open, saved ? saved->capacity : 0);
    options.max_sessions = kMaxBranches + 1;  // one more for /load to read into
    BIFOCAL_TRY(Engine engine, Engine::make(open.model, options));
    Chat chat(args, engine, open.model);
    BIFOCAL_TRY_STATUS(chat.start());
    return chat.loop();
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<ChatArgs>();
    CLI::App* const sub = app.add_subcommand("chat", "a conversation in the terminal");
    sub->footer(std::string("In the chat:\n") + kHelp + "\n" + kExample);
    add_model_options(*sub, args->model);
    add_layout_options(*sub, args->model);
    add_checkpoint_options(*sub, args->model);
    sub->add_option("-n,--predict,--n-predict", args->n,
                    "most tokens of an answer; -1: until the model ends it")
        ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40))
        ->capture_default_str();
    add_sampling_options(*sub, args->sampling);
    sub->add_option("--system", args->system, "system message");
    sub->add_option("--chat-template-file", args->template_file,
                    "Jinja template instead of the model's own");
    sub->add_option("--load-state", args->load_state, "conversation to go on with");
    sub->add_option("--save-state", args->save_state,
                    "file to save the conversation to at the end");
    sub->callback([args, &exit_status] {
        catch_interrupts();
        const Result<int> status = chat(*args);
        exit_status = status.ok() ? *status : report(status.error());
    });
}

}  // namespace bifocal::cli
