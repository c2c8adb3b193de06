#include "cli/sampling_args.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <random>

namespace bifocal::cli {
namespace {

void lay_over(ops::SamplingOptions& options, const SamplingArgs& args) {
    options.temperature = args.temperature.value_or(options.temperature);
    options.top_k = args.top_k.value_or(options.top_k);
    options.top_p = args.top_p.value_or(options.top_p);
    options.min_p = args.min_p.value_or(options.min_p);
    options.repeat_penalty = args.repeat_penalty.value_or(options.repeat_penalty);
    options.repeat_last_n = args.repeat_last_n.value_or(options.repeat_last_n);
    options.seed = args.seed.value_or(options.seed);
}

Status check_effect(const ops::SamplingOptions& options, const SamplingArgs& args) {
    if (options.temperature > 0) return {};
    const char* const flag = args.top_k ? "--top-k" : args.top_p ? "--top-p" : "--min-p";
    if (args.top_k || args.top_p || args.min_p)
        return Error{.what = std::string(flag) + " changes nothing at --temp 0",
                     .hint = "leave it out, or give a temperature above 0",
                     .kind = ErrorKind::usage};
    return {};
}

}  // namespace

void add_sampling_options(CLI::App& app, SamplingArgs& args) {
    const float big = 1e6f;
    const int most = std::numeric_limits<int>::max();
    app.add_option("--temp", args.temperature, "temperature; 0: always the likeliest token [0.8]")
        ->check(CLI::Range(0.0f, big));
    app.add_option("--top-k", args.top_k, "only the k likeliest tokens; 0: all [40]")
        ->check(CLI::Range(0, most));
    app.add_option("--top-p", args.top_p, "likeliest tokens up to this probability; 1: all [0.95]")
        ->check(CLI::Range(0.0f, 1.0f));
    app.add_option("--min-p", args.min_p,
                   "tokens with at least this share of the best one's probability; 0: all [0.05]")
        ->check(CLI::Range(0.0f, 1.0f));
    app.add_option("--repeat-penalty", args.repeat_penalty,
                   "divides the logits of recent tokens; 1: off [1]")
        ->check(CLI::Range(1e-6f, big));
    app.add_option("--repeat-last-n", args.repeat_last_n,
                   "how many recent tokens the penalty knows [64]")
        ->check(CLI::Range(0, 1 << 20));
    app.add_flag("--ignore-eos", args.ignore_eos,
                 "never draw a token that ends the text, so only -n or Ctrl-C does");
    app.add_option("-s,--seed", args.seed, "same seed, same text; default: drawn and printed");
}

Result<ops::SamplingOptions> sampling_options(const SamplingArgs& args) {
    ops::SamplingOptions options;
    if (!args.seed) options.seed = std::random_device()();
    lay_over(options, args);
    BIFOCAL_TRY_STATUS(check_effect(options, args));
    return options;
}

Result<ops::Sampler> restored_sampler(ops::Sampler saved, const SamplingArgs& args) {
    ops::SamplingOptions options = saved.options;
    lay_over(options, args);
    BIFOCAL_TRY_STATUS(check_effect(options, args));
    if (options.repeat_last_n != saved.options.repeat_last_n)
        return Error{.what = "--repeat-last-n cannot change in a restored session",
                     .expected = std::to_string(saved.options.repeat_last_n),
                     .got = std::to_string(options.repeat_last_n),
                     .kind = ErrorKind::usage};
    saved.options = options;
    if (args.seed) saved.rng = Rng{*args.seed};
    return saved;
}

}  // namespace bifocal::cli
