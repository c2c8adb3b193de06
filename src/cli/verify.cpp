// bifocal verify: one text through every path that must agree: chunks of several sizes, token by
// token, beside other sequences in one batch, and saved and restored. All paths walk the text
// together, block by block, so that memory does not grow with it; logits are compared at every
// token.
#include <fmt/format.h>

#include <unistd.h>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "core/json/json.h"
#include "core/progress.h"
#include "core/rng.h"
#include "model/model_spec.h"
#include "runtime/drift.h"
#include "runtime/snapshot.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "The reference is the text in chunks of 256. A path drifts when its mean KL is above --max-kl, "
    "a logit is not\nfinite, or a restored session differs by a bit from one that never stopped; "
    "then the exit status is 1.\n\n"
    "example:\n"
    "  bifocal verify -f examples/long_text.txt --tokens 2000 \\\n"
    "      --attention sliding_window:window=508,sink_tokens=4";

constexpr int64_t kBlock = 256;     // tokens between two comparisons
constexpr int64_t kNeighbours = 2;  // other sequences of the batch

struct VerifyArgs {
    ModelArgs model;
    TextArgs text;
    int64_t tokens = 512;
    double max_kl = 1e-3;
    bool json = false;
};

// One way through the text.
struct Path {
    std::string name;
    int64_t chunk = 0;
    enum class Kind { chunks, batch, restored } kind = Kind::chunks;
    Session session;
    std::vector<Session> neighbours;
    Drift drift;
};

class Verification {
  public:
    Verification(Engine& engine, std::vector<int32_t> tokens)
        : engine_(engine), tokens_(std::move(tokens)), vocab_(engine.vocab_size()) {
        reference_.resize(static_cast<size_t>(kBlock * vocab_));
    }

    Status run() {
        BIFOCAL_TRY(Session reference, engine_.new_session());
        for (const int64_t chunk : {64, 7}) {
            BIFOCAL_TRY_STATUS(add(fmt::format("chunks of {}", chunk), chunk, Path::Kind::chunks));
        }
        BIFOCAL_TRY_STATUS(add("token by token", 1, Path::Kind::chunks));
        BIFOCAL_TRY_STATUS(add(fmt::format("batch of {}", kNeighbours + 1), 1, Path::Kind::batch));
        BIFOCAL_TRY_STATUS(add("saved and restored", kBlock, Path::Kind::restored));
        const int64_t n = std::ssize(tokens_);
        Progress progress("verifying", n, "tokens");
        for (int64_t at = 0; at < n; at += kBlock) {
            const auto block =
                std::span<const int32_t>(tokens_).subspan(at, std::min(kBlock, n - at));
            BIFOCAL_TRY_STATUS(
                reference.score(block, [&](int64_t begin, std::span<const float> logits) {
                    std::ranges::copy(logits, reference_.begin() + begin * vocab_);
                    return true;
                }));
            for (Path& path : paths_) {
                BIFOCAL_TRY_STATUS(walk(path, block));
                if (interrupted()) return Error{.what = "stopped"};
            }
            progress.update(at + std::ssize(block));
        }
        return {};
    }

    const std::vector<Path>& paths() const { return paths_; }

  private:
    Status add(std::string name, int64_t chunk, Path::Kind kind) {
        BIFOCAL_TRY(Session session, engine_.new_session());
        std::vector<Session> neighbours;
        for (int64_t i = 0; kind == Path::Kind::batch && i < kNeighbours; ++i) {
            BIFOCAL_TRY(Session neighbour, engine_.new_session());
            // Other tokens at other positions.
            std::vector<int32_t> head;
            for (int64_t j = 0; j <= 3 * i; ++j) head.push_back(other_token());
            BIFOCAL_TRY_STATUS(neighbour.prefill(head));
            neighbours.push_back(std::move(neighbour));
        }
        paths_.push_back(
            {std::move(name), chunk, kind, std::move(session), std::move(neighbours), {}});
        return {};
    }

    int32_t other_token() { return static_cast<int32_t>(rng_.below(vocab_)); }

    std::span<const float> reference_row(int64_t i) const {
        return {reference_.data() + i * vocab_, static_cast<size_t>(vocab_)};
    }

    Status walk(Path& path, std::span<const int32_t> block) {
        if (path.kind == Path::Kind::batch) return walk_batch(path, block);
        const int64_t n = std::ssize(block);
        for (int64_t at = 0; at < n; at += path.chunk) {
            const int64_t T = std::min(path.chunk, n - at);
            BIFOCAL_TRY_STATUS(path.session.score(
                block.subspan(at, T), [&](int64_t begin, std::span<const float> logits) {
                    for (int64_t i = 0; i < std::ssize(logits) / vocab_; ++i)
                        path.drift.add(reference_row(at + begin + i),
                                       logits.subspan(i * vocab_, vocab_));
                    return true;
                }));
        }
        return path.kind == Path::Kind::restored ? save_and_restore(path) : Status{};
    }

    // The sequence stands between its neighbours, whose tokens have nothing to do with it.
    Status walk_batch(Path& path, std::span<const int32_t> block) {
        Session* const batch[] = {&path.neighbours[0], &path.session, &path.neighbours[1]};
        for (size_t i = 0; i < block.size(); ++i) {
            const int32_t tokens[] = {other_token(), block[i], other_token()};
            BIFOCAL_TRY_STATUS(engine_.step(batch, tokens));
            path.drift.add(reference_row(static_cast<int64_t>(i)), path.session.logits());
        }
        return {};
    }

    // Through a file, into a session that knows nothing.
    Status save_and_restore(Path& path) {
        const std::string file = (std::filesystem::temp_directory_path() /
                                  fmt::format("bifocal-verify-{}.snapshot", ::getpid()))
                                     .string();
        BIFOCAL_TRY_STATUS(path.session.save(file));
        path.session.reset();
        const Status loaded = path.session.load(file);
        std::filesystem::remove(file);
        return loaded;
    }

    Engine& engine_;
    std::vector<int32_t> tokens_;
    int64_t vocab_;
    std::vector<float> reference_;  // [kBlock, vocab]
    std::vector<Path> paths_;
    Rng rng_{1};
};

// What is wrong with a path; empty: nothing.
std::string verdict(const Path& path, double max_kl) {
    if (path.drift.not_finite > 0) return "not finite";
    if (path.kind == Path::Kind::restored && path.drift.bit_equal < path.drift.tokens())
        return "bits differ";
    return path.drift.kl.mean() > max_kl ? "drifts" : "";
}

void print_table(const std::vector<Path>& paths, const std::string& layout, int64_t n,
                 double max_kl) {
    std::vector<std::vector<std::string>> rows = {
        {"path", "max |Δlogit|", "mean KL", "max KL", "same top-1", "same bits", "verdict"}};
    for (const Path& path : paths) {
        const auto share = [&](int64_t count) {
            return fmt::format("{:.2f}%", 100 * static_cast<double>(count) /
                                              static_cast<double>(path.drift.tokens()));
        };
        const std::string wrong = verdict(path, max_kl);
        rows.push_back({path.name, fmt::format("{:.3g}", path.drift.max_abs),
                        fmt::format("{:.3g}", path.drift.kl.mean()),
                        fmt::format("{:.3g}", path.drift.max_kl), share(path.drift.same_top),
                        share(path.drift.bit_equal), wrong.empty() ? "agrees" : wrong});
    }
    fmt::print("{} tokens at {}, each path against chunks of {}\n\n{}", count_text(n), layout,
               kBlock, table(rows));
}

void print_json(const std::vector<Path>& paths, const std::string& layout, int64_t n,
                double max_kl) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Path& path : paths)
        list.push_back({{"path", path.name},
                        {"max_abs", path.drift.max_abs},
                        {"mean_kl", path.drift.kl.mean()},
                        {"max_kl", path.drift.max_kl},
                        {"same_top", path.drift.same_top},
                        {"bit_equal", path.drift.bit_equal},
                        {"not_finite", path.drift.not_finite},
                        {"agrees", verdict(path, max_kl).empty()}});
    const nlohmann::ordered_json json = {
        {"tokens", n}, {"attention", layout}, {"reference_chunk", kBlock}, {"paths", list}};
    fmt::print("{}\n", json::to_text(json, 2));
}

// The text's first tokens, or tokens by chance when there is no text.
Result<std::vector<int32_t>> tokens_to_verify(const VerifyArgs& args, const Model& model) {
    std::vector<int32_t> tokens;
    if (!args.text.has_text && !args.text.has_file) {
        Rng rng{2};
        for (int64_t i = 0; i < args.tokens; ++i)
            tokens.push_back(static_cast<int32_t>(rng.below(model.spec().vocab_size)));
        return tokens;
    }
    BIFOCAL_TRY(const std::string text, read_text(args.text, "text"));
    BIFOCAL_TRY(const tokenizer::Tokenizer tokenizer, tokenizer_of(model));
    BIFOCAL_TRY(tokens, tokenizer.encode(text, {.parse_special = false, .reject_invalid = true}));
    if (tokens.empty()) return Error{.what = "the text is empty", .expected = "at least one token"};
    if (std::ssize(tokens) > args.tokens) tokens.resize(static_cast<size_t>(args.tokens));
    return tokens;
}

Result<bool> verify(const VerifyArgs& args) {
    BIFOCAL_TRY(const OpenModel open, open_model(args.model));
    BIFOCAL_TRY(auto tokens, tokens_to_verify(args, open.model));
    const int64_t n = std::ssize(tokens);
    constexpr int64_t kLead = 3 * kNeighbours;  // tokens that neighbours are ahead by, at most
    EngineOptions options = engine_options(args.model, open, n + kLead);
    options.scores = true;
    options.chunk = kBlock;
    options.max_sessions = 6 + kNeighbours;
    options.max_batch = 1 + kNeighbours;
    BIFOCAL_TRY(Engine engine, Engine::make(open.model, options));
    Verification verification(engine, std::move(tokens));
    BIFOCAL_TRY_STATUS(verification.run());
    const std::string layout = layout_text(open.model);
    if (args.json) {
        print_json(verification.paths(), layout, n, args.max_kl);
    } else {
        print_table(verification.paths(), layout, n, args.max_kl);
    }
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
                    "tokens of the text; without a text, as many by chance")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
        ->capture_default_str();
    sub->add_option("--max-kl", args->max_kl, "mean KL in nats above which a path drifts")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] { exit_status = run_command(*args); });
}

}  // namespace bifocal::cli
