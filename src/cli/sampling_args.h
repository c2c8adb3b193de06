// The sampling flags, by the names and defaults of llama.cpp.
#pragma once

#include <optional>

#include "bifocal/error.h"
#include "ops/sampling.h"

namespace CLI {
class App;
}

namespace bifocal::cli {

struct SamplingArgs {
    std::optional<float> temperature, top_p, min_p, repeat_penalty;
    std::optional<int> top_k, repeat_last_n;
    std::optional<uint64_t> seed;
    bool ignore_eos = false;  // of this command only; a saved session does not hold it
};

void add_sampling_options(CLI::App& app, SamplingArgs& args);

// What was given laid over `base`; a seed is drawn when neither says one. A flag that could change
// nothing is an error.
Result<ops::SamplingOptions> sampling_options(const SamplingArgs& args);
// The sampler of a restored session with the given flags laid over it.
Result<ops::Sampler> restored_sampler(ops::Sampler saved, const SamplingArgs& args);

}  // namespace bifocal::cli
