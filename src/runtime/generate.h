// The decode loop: sample, print, decode, repeat.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bifocal/session.h"
#include "formats/tokenizer/tokenizer.h"
#include "ops/sampling.h"

namespace bifocal {

enum class StopReason {
    limit,        // as many tokens as asked for
    stop_token,   // the model ended its text
    full,         // full attention has no room for another token
    interrupted,  // should_stop() said so
};
std::string_view stop_reason_name(StopReason reason);

struct GenerateOptions {
    int64_t max_tokens = -1;  // -1: no limit
    // Reads the last token too, so that the session holds all that was written; without it the
    // last step is saved.
    bool read_last = false;
    std::span<const int32_t> stop_tokens;
    bool never_stops = false;  // a stop token is not drawn at all
    std::function<void(std::string_view text)> on_text;
    std::function<bool()> should_stop;
};

struct Generation {
    std::vector<int32_t> tokens;  // a stop token included
    StopReason reason = StopReason::limit;
    double seconds = 0;
    int64_t n_steps = 0;       // decode steps in `seconds`
    uint64_t logits_hash = 0;  // of the logits that the last token was drawn from
};

// REQUIRES: session.logits() is not empty.
Result<Generation> generate(Session& session, ops::Sampler& sampler,
                            tokenizer::StreamingDecoder& text, const GenerateOptions& options);

}  // namespace bifocal
