// bifocal bench: how fast decoding and reading are, over context lengths, against what this machine
// can read from memory. Positions are real: every token before them went through the model.
// Repeats go round the positions in turn, so that a slow moment of the machine meets all of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_mixer.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/memory_report.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/spread.h"
#include "core/bandwidth.h"
#include "core/cpu_features.h"
#include "core/json/json.h"
#include "core/progress.h"
#include "core/rng.h"
#include "model/model_spec.h"
#include "runtime/scoring.h"

namespace bifocal::cli {
namespace {

constexpr const char* kDecodeExample =
    "example:\n"
    "  bifocal bench decode --at 1000 --at 32000 --attention "
    "sliding_window:window=508,sink_tokens=4";
constexpr const char* kPrefillExample = "example:\n  bifocal bench prefill --at 512 --at 2048";

struct BenchArgs {
    ModelArgs model;
    std::vector<int64_t> at;
    int64_t n = 32, repeats = 5;
    bool json = false;
};

struct Measurement {
    int64_t at = 0;  // tokens before the first measured one, or length of the prompt
    std::vector<double> tokens_per_second;  // one a repeat
    int64_t bytes_per_token = 0;            // weights, and keys and values that a token reads
};

std::vector<int32_t> random_tokens(int64_t n, int64_t vocab) {
    Rng rng{7};
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(rng.below(vocab)));
    return tokens;
}

double seconds_of(const std::function<Status()>& work, Status& status) {
    const auto begin = std::chrono::steady_clock::now();
    status = work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Sessions at each of the positions, from one walk to the last of them.
Result<std::vector<Session>> sessions_at(Engine& engine, const std::vector<int64_t>& positions,
                                         std::span<const int32_t> tokens) {
    std::vector<Session> sessions;
    BIFOCAL_TRY(Session walker, engine.new_session());
    Progress progress("reading", positions.back(), "tokens");
    for (const int64_t position : positions) {
        const int64_t begin = walker.position();
        BIFOCAL_TRY_STATUS(
            walker.prefill(tokens.subspan(begin, position - begin), [&](int64_t done) {
                progress.update(begin + done);
                return !interrupted();
            }));
        BIFOCAL_TRY(Session here, walker.fork());
        sessions.push_back(std::move(here));
    }
    return sessions;
}

Result<std::vector<Measurement>> bench_decode(const BenchArgs& args, const Model& model,
                                              Engine& engine) {
    const int64_t most = args.at.back() + args.n * (args.repeats + 1);
    const std::vector<int32_t> tokens = random_tokens(most, engine.vocab_size());
    BIFOCAL_TRY(std::vector<Session> sessions, sessions_at(engine, args.at, tokens));
    std::vector<Measurement> out;
    for (size_t i = 0; i < sessions.size(); ++i) {
        const MemoryReport memory = sessions[i].memory();
        // A layout with an end reads what is filled of its states, another one all of them.
        const int64_t filled = std::min(memory.state_bytes, memory.full_attention_bytes);
        out.push_back({args.at[i], {}, model.info().weight_bytes + filled});
    }
    Progress progress("decoding", (args.repeats + 1) * std::ssize(sessions), "repeats");
    for (int64_t repeat = 0; repeat <= args.repeats; ++repeat) {  // the first warms up
        for (size_t i = 0; i < sessions.size(); ++i) {
            if (interrupted()) return Error{.what = "stopped"};
            Status status;
            const double seconds = seconds_of(
                [&]() -> Status {
                    for (int64_t k = 0; k < args.n; ++k)
                        BIFOCAL_TRY_STATUS(sessions[i].decode(tokens[sessions[i].position()]));
                    return {};
                },
                status);
            BIFOCAL_TRY_STATUS(std::move(status));
            if (repeat > 0) out[i].tokens_per_second.push_back(per_second(args.n, seconds));
            progress.update(repeat * std::ssize(sessions) + static_cast<int64_t>(i) + 1);
        }
    }
    return out;
}

Result<std::vector<Measurement>> bench_prefill(const BenchArgs& args, const Model&,
                                               Engine& engine) {
    const std::vector<int32_t> tokens = random_tokens(args.at.back(), engine.vocab_size());
    BIFOCAL_TRY(Session session, engine.new_session());
    std::vector<Measurement> out;
    for (const int64_t length : args.at) out.push_back({length, {}, 0});
    Progress progress("reading", (args.repeats + 1) * std::ssize(out), "repeats");
    for (int64_t repeat = 0; repeat <= args.repeats; ++repeat) {
        for (size_t i = 0; i < out.size(); ++i) {
            session.reset();
            Status status;
            const double seconds = seconds_of(
                [&] {
                    return session.prefill({tokens.data(), static_cast<size_t>(out[i].at)},
                                           [](int64_t) { return !interrupted(); });
                },
                status);
            if (interrupted()) return Error{.what = "stopped"};
            BIFOCAL_TRY_STATUS(std::move(status));
            if (repeat > 0) out[i].tokens_per_second.push_back(per_second(out[i].at, seconds));
            progress.update(repeat * std::ssize(out) + static_cast<int64_t>(i) + 1);
        }
    }
    return out;
}

// Speed against the first position: the median over repeats of the ratio within a repeat.
double ratio_to_first(const Measurement& one, const Measurement& first) {
    std::vector<double> ratios;
    for (size_t i = 0; i < one.tokens_per_second.size(); ++i)
        ratios.push_back(one.tokens_per_second[i] / first.tokens_per_second[i]);
    return spread_of(ratios).median;
}

void print_table(const std::vector<Measurement>& all, bool is_decode, const Bandwidth& limit,
                 const std::string& title) {
    std::vector<std::vector<std::string>> rows = {
        {is_decode ? "position" : "prompt tokens", "tokens/s", "quartiles", "to first"}};
    if (is_decode) rows[0].insert(rows[0].end(), {"GB/s", "of this machine's"});
    for (const Measurement& one : all) {
        const Spread spread = spread_of(one.tokens_per_second);
        rows.push_back({count_text(one.at), fmt::format("{:.1f}", spread.median),
                        fmt::format("{:.1f}-{:.1f}", spread.low, spread.high),
                        fmt::format("{:.3f}", ratio_to_first(one, all[0]))});
        if (!is_decode) continue;
        const double rate = spread.median * static_cast<double>(one.bytes_per_token) * 1e-9;
        rows.back().push_back(fmt::format("{:.2f}", rate));
        rows.back().push_back(fmt::format("{:.0f}%", 100 * rate / limit.median_gb_per_s));
    }
    fmt::print("{}\n\n{}", title, table(rows));
    if (is_decode)
        fmt::print("\nthis machine reads {:.2f} GB/s ({} again and again)\n", limit.median_gb_per_s,
                   bytes_text(static_cast<int64_t>(limit.bytes)));
}

void print_json(const std::vector<Measurement>& all, bool is_decode, const Bandwidth& limit,
                const OpenModel& open, const Engine& engine) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Measurement& one : all) {
        const Spread spread = spread_of(one.tokens_per_second);
        nlohmann::ordered_json entry = {{is_decode ? "position" : "prompt_tokens", one.at},
                                        {"tokens_per_second", spread.median},
                                        {"quartiles", {spread.low, spread.high}},
                                        {"repeats", one.tokens_per_second},
                                        {"ratio_to_first", ratio_to_first(one, all[0])}};
        if (is_decode) {
            const double rate = spread.median * static_cast<double>(one.bytes_per_token) * 1e-9;
            entry["bytes_per_token"] = one.bytes_per_token;
            entry["gb_per_second"] = rate;
            entry["share_of_bandwidth"] = rate / limit.median_gb_per_s;
        }
        list.push_back(std::move(entry));
    }
    nlohmann::ordered_json json = {{"bench", is_decode ? "decode" : "prefill"},
                                   {"model", open.model.info().path},
                                   {"attention", layout_text(open.model)},
                                   {"threads", engine.options().n_threads},
                                   {"kernels", std::string(isa_name(active_isa()))},
                                   {"state_bytes", engine.state_bytes()},
                                   {"results", list}};
    if (is_decode) json["machine_gb_per_second"] = limit.median_gb_per_s;
    fmt::print("{}\n", json::to_text(json, 2));
}

Status bench(BenchArgs args, bool is_decode) {
    std::ranges::sort(args.at);
    BIFOCAL_TRY(const OpenModel open, open_model(args.model));
    const int64_t longest = args.at.back() + (is_decode ? args.n * (args.repeats + 1) : 0);
    EngineOptions options = engine_options(args.model, open, longest);
    options.max_sessions = is_decode ? std::ssize(args.at) + 1 : 1;
    BIFOCAL_TRY(Engine engine, Engine::make(open.model, options));
    BIFOCAL_TRY(const auto results, is_decode ? bench_decode(args, open.model, engine)
                                              : bench_prefill(args, open.model, engine));
    Bandwidth limit;
    if (is_decode) {
        ThreadPool threads(engine.options().n_threads);
        limit = measure_read_bandwidth(static_cast<size_t>(open.model.info().weight_bytes), 1.0,
                                       threads);
    }
    if (args.json) {
        print_json(results, is_decode, limit, open, engine);
    } else {
        print_table(results, is_decode, limit,
                    fmt::format("{}, {} threads, {} kernels, {} repeats{}", layout_text(open.model),
                                engine.options().n_threads, isa_name(active_isa()), args.repeats,
                                is_decode ? fmt::format(" of {} tokens", args.n) : ""));
    }
    return {};
}

void add_bench(CLI::App& app, bool is_decode, int& exit_status) {
    auto args = std::make_shared<BenchArgs>();
    args->at = {is_decode ? 1000 : 512};
    CLI::App* const sub = is_decode
                              ? app.add_subcommand("decode", "tokens per second, one at a time")
                              : app.add_subcommand("prefill", "tokens per second of a prompt");
    sub->footer(is_decode ? kDecodeExample : kPrefillExample);
    add_model_options(*sub, args->model);
    add_layout_options(*sub, args->model);
    sub->add_option("--at", args->at,
                    is_decode ? "position to decode at; several times, or with commas"
                              : "length of the prompt; several times, or with commas")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
        ->capture_default_str();
    if (is_decode)
        sub->add_option("-n,--predict,--n-predict", args->n, "tokens in a repeat")
            ->check(CLI::Range(1, 1 << 20))
            ->capture_default_str();
    sub->add_option("-r,--repeats", args->repeats, "repeats, after one that warms up")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, is_decode, &exit_status] {
        catch_interrupts();
        const Status status = bench(*args, is_decode);
        if (interrupted()) {
            fmt::print(stderr, "bifocal: stopped\n");
            exit_status = kInterrupted;
        } else {
            exit_status = report(status);
        }
    });
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_status) {
    CLI::App* const sub = app.add_subcommand("bench", "measures speed on this machine");
    sub->require_subcommand(1);
    sub->footer(kDecodeExample);
    add_bench(*sub, true, exit_status);
    add_bench(*sub, false, exit_status);
    add_bench_mixer_command(*sub, exit_status);
}

}  // namespace bifocal::cli
