// bifocal bench mixer: the recurrence of each linear rule alone, without projections, token by
// token and in chunks. Both forms run in turn in every repeat, so that a slow moment meets both.
#include "cli/bench_mixer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/spread.h"
#include "core/cpu_features.h"
#include "core/json/json.h"
#include "core/rng.h"
#include "core/thread_pool.h"
#include "mixers/linear/rules/rules.h"
#include "mixers/shared/rule_names.h"

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
    linear::Recurrence recurrence;
    std::vector<double> recurrent_s, chunk_s;  // one a repeat
};

// Inputs of H states over T tokens, of the size that a model's would have, and room for the rest.
class Bench {
  public:
    Bench(const linear::LinearConfig& config, int64_t T, int n_threads)
        : rec_(config.recurrence), H_(config.n_states), T_(T), pool_(n_threads) {
        rec_.n_queries = 1;
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        const int64_t decays = rec_.decays_by_channel ? K : 1;
        Rng rng{3};
        const auto fill = [&](std::vector<float>& all, int64_t width, auto draw) {
            all.resize(static_cast<size_t>(T_ * H_ * width));
            for (float& value : all) value = static_cast<float>(draw());
        };
        // What is divided by a sum of products has features of one sign.
        const double size = 1 / std::sqrt(static_cast<double>(K));
        const auto feature = [&] {
            return rec_.has_normaliser() ? std::fabs(rng.normal()) * size : rng.normal() * size;
        };
        fill(q_, K, feature);
        fill(k_, K, feature);
        fill(v_, V, [&] { return rng.normal(); });
        fill(g_, decays, [&] { return -0.1 * std::fabs(rng.normal()); });
        fill(w_, 1, [&] { return rec_.has_stabiliser() ? rng.normal() : rng.uniform(); });
        fill(y_, V, [] { return 0; });
        bonus_.assign(static_cast<size_t>(K), 0.5f);
        s_.resize(static_cast<size_t>(H_ * K * V));
        n_.resize(static_cast<size_t>(H_ * K));
        m_.resize(static_cast<size_t>(H_));
        each_ = linear::scratch_floats(rec_) / 16 * 16 + 16;
        scratch_.resize(static_cast<size_t>(each_ * pool_.size()));
    }

    const linear::Recurrence& recurrence() const { return rec_; }

    // All tokens of all states from a fresh state; seconds.
    double run(decltype(&linear::run_chunks) form) {
        std::ranges::fill(s_, 0.0f);
        std::ranges::fill(n_, 0.0f);
        std::ranges::fill(m_, -std::numeric_limits<float>::infinity());
        const auto begin = std::chrono::steady_clock::now();
        pool_.parallel_for(H_, 1, [&](int64_t first, int64_t last, int thread) {
            for (int64_t h = first; h < last; ++h)
                form(rec_, tokens(h), state(h),
                     std::span(scratch_).subspan(static_cast<size_t>(thread * each_),
                                                 static_cast<size_t>(each_)));
        });
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

  private:
    linear::Tokens<float> tokens(int64_t h) {
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        const int64_t decays = rec_.decays_by_channel ? K : 1;
        linear::Tokens<float> x;
        x.n = T_;
        x.q = &q_[h * K], x.q_row = H_ * K;
        x.k = &k_[h * K], x.k_row = H_ * K;
        x.v = &v_[h * V], x.v_row = H_ * V;
        x.g = &g_[h * decays], x.g_row = H_ * decays;
        x.w = &w_[h], x.w_row = H_;
        x.y = &y_[h * V], x.y_row = H_ * V;
        if (rec_.has_bonus) x.bonus = bonus_.data();
        return x;
    }
    linear::State<float> state(int64_t h) {
        const int64_t K = rec_.key_dim, V = rec_.value_dim;
        return {&s_[h * K * V], rec_.has_normaliser() ? &n_[h * K] : nullptr,
                rec_.has_stabiliser() ? &m_[h] : nullptr};
    }

    linear::Recurrence rec_;
    int64_t H_, T_, each_ = 0;
    ThreadPool pool_;
    std::vector<float> q_, k_, v_, g_, w_, y_, bonus_, s_, n_, m_, scratch_;
};

Result<MixerMeasurement> measure(const std::string& rule, const MixerBenchArgs& args) {
    LayerContext layer;
    layer.n_layers = 1;
    layer.d_model = args.states * args.head_dim;
    layer.n_heads = layer.n_kv_heads = args.states;
    layer.head_dim = args.head_dim;
    BIFOCAL_TRY(const linear::LinearConfig config,
                linear::read_config({"linear", {{"rule", rule}}}, layer));
    Bench bench(config, args.tokens, args.threads);
    MixerMeasurement out{rule, bench.recurrence(), {}, {}};
    for (int64_t repeat = 0; repeat <= args.repeats; ++repeat) {  // the first warms up
        if (interrupted()) return Error{.what = "stopped"};
        const bool chunks_first = repeat % 2 == 1;
        const double early = bench.run(chunks_first ? linear::run_chunks : linear::run_recurrent);
        const double late = bench.run(chunks_first ? linear::run_recurrent : linear::run_chunks);
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
                        linear::prefers_chunks(one.recurrence, args.tokens) ? "chunks" : "tokens"});
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
                        {"runs_chunks", linear::prefers_chunks(one.recurrence, args.tokens)}});
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
