// bifocal bench mixer: the recurrence of each linear rule alone, without projections, token by
// token and in chunks. Both forms run in turn in every repeat, so that a slow moment meets both.
#include "cli/bench_mixer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/spread.h"
#include "core/cpu_features.h"
#include "core/json/json.h"
#include "mixers/shared/rule_names.h"
#include "mixers/shared/rule_timing.h"

namespace bifocal::cli {
namespace {

struct MixerBenchArgs {
    std::vector<std::string> rules;  // empty: all
    int64_t tokens = 4096, head_dim = 64, states = 8;
    int64_t repeats = 7;
    int threads = 0;  // 0: one per core
    bool json = false;
};

struct MixerMeasurement {
    std::string rule;
    bool prefers_chunks = false;
    std::vector<double> recurrent_s, chunk_s;  // one a repeat
};

Result<MixerMeasurement> measure(const std::string& rule, const MixerBenchArgs& args) {
    BIFOCAL_TRY(const std::unique_ptr<RuleTiming> bench,
                RuleTiming::make(rule, {args.tokens, args.head_dim, args.states}, args.threads));
    MixerMeasurement out{rule, bench->prefers_chunks(), {}, {}};
    for (int64_t repeat = 0; repeat <= args.repeats; ++repeat) {  // the first warms up
        if (interrupted()) return Error{.what = "stopped"};
        const bool chunks_first = repeat % 2 == 1;
        const double early = bench->run(chunks_first);
        const double late = bench->run(!chunks_first);
        if (repeat == 0) continue;
        out.recurrent_s.push_back(chunks_first ? late : early);
        out.chunk_s.push_back(chunks_first ? early : late);
    }
    return out;
}

std::vector<double> ratios(const MixerMeasurement& one) {
    std::vector<double> all;
    for (size_t i = 0; i < one.chunk_s.size(); ++i)
        all.push_back(one.recurrent_s[i] / one.chunk_s[i]);
    return all;
}

std::string spread_text(const Spread& spread, double factor, int digits) {
    return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", factor * spread.median, digits,
                       factor * spread.low, digits, factor * spread.high, digits);
}

void print(const std::vector<MixerMeasurement>& all, const MixerBenchArgs& args) {
    const double to_ns = 1e9 / static_cast<double>(args.tokens * args.states);
    std::vector<std::vector<std::string>> rows = {
        {"rule", "token by token, ns", "chunks, ns", "chunks are faster by", "long prompts take"}};
    for (const MixerMeasurement& one : all)
        rows.push_back({one.rule, spread_text(spread_of(one.recurrent_s), to_ns, 1),
                        spread_text(spread_of(one.chunk_s), to_ns, 1),
                        spread_text(spread_of(ratios(one)), 1, 2),
                        one.prefers_chunks ? "chunks" : "tokens"});
    fmt::print(
        "{} tokens, {} states of {} features and {} values, {} threads, {} kernels, {} repeats\n"
        "ns per token and state: median [quartiles]\n\n{}",
        args.tokens, args.states, args.head_dim, args.head_dim, args.threads,
        isa_name(active_isa()), args.repeats, table(rows));
}

void print_json(const std::vector<MixerMeasurement>& all, const MixerBenchArgs& args) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const MixerMeasurement& one : all)
        list.push_back({{"rule", one.rule},
                        {"recurrent_seconds", one.recurrent_s},
                        {"chunk_seconds", one.chunk_s},
                        {"chunk_speed_ratio", spread_of(ratios(one)).median},
                        {"runs_chunks", one.prefers_chunks}});
    const nlohmann::ordered_json json = {{"bench", "mixer"},
                                         {"tokens", args.tokens},
                                         {"head_dim", args.head_dim},
                                         {"states", args.states},
                                         {"threads", args.threads},
                                         {"kernels", std::string(isa_name(active_isa()))},
                                         {"results", list}};
    fmt::print("{}\n", json::to_text(json, 2));
}

Status bench_mixer(MixerBenchArgs args) {
    if (args.rules.empty()) args.rules = linear_rule_names();
    if (args.threads == 0) args.threads = available_cores();
    std::vector<MixerMeasurement> all;
    for (const std::string& rule : args.rules) {
        BIFOCAL_TRY(MixerMeasurement one, measure(rule, args));
        all.push_back(std::move(one));
    }
    args.json ? print_json(all, args) : print(all, args);
    return {};
}

}  // namespace

void add_bench_mixer_command(CLI::App& bench, int& exit_status) {
    auto args = std::make_shared<MixerBenchArgs>();
    CLI::App* const sub = bench.add_subcommand(
        "mixer", "recurrences of the linear rules, token by token and in chunks");
    sub->footer("example:\n  bifocal bench mixer --tokens 4096 --head-dim 64 --rule gdn,mlstm");
    sub->add_option("--rule", args->rules, "a rule of `linear`; several times, or with commas")
        ->delimiter(',')
        ->allow_extra_args(false);
    const auto add = [&](const char* name, int64_t& value, int64_t most, const char* what) {
        sub->add_option(name, value, what)
            ->check(CLI::Range(int64_t{1}, most))
            ->capture_default_str();
    };
    add("--tokens", args->tokens, 1 << 20, "length of the sequence");
    add("--head-dim", args->head_dim, 512, "features and values of a state");
    add("--states", args->states, 1024, "states, which threads share");
    add("-r,--repeats", args->repeats, 1000, "repeats, after one that warms up");
    sub->add_option("-t,--threads", args->threads, "threads; default: one per core")
        ->check(CLI::Range(1, 1024));
    sub->add_flag("--json", args->json, "one JSON object");
    sub->callback([args, &exit_status] {
        catch_interrupts();
        const Status status = bench_mixer(*args);
        exit_status = report(status);
        if (interrupted()) exit_status = kInterrupted;
    });
}

}  // namespace bifocal::cli
