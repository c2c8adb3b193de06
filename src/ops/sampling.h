// Sampling: the chain repeat-penalty → temperature → top-k → top-p → min-p → draw, and greedy at 0.
// The same seed and logits give the same token on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace bifocal::ops {

struct SamplingOptions {
    float temperature = 0.8f;     // 0: greedy
    int top_k = 40;               // 0: off
    float top_p = 0.95f;          // 1: off
    float min_p = 0.05f;          // 0: off
    float repeat_penalty = 1.0f;  // 1: off
    int repeat_last_n = 64;       // tokens the penalty looks back at
    uint64_t seed = 0;
};

// Plain, copyable state; a snapshot stores it, so a restored session draws the same tokens.
struct Sampler {
    SamplingOptions options;
    Rng rng;
    std::vector<int32_t> recent;  // last `repeat_last_n` tokens, a ring
    int64_t n_seen = 0;

    explicit Sampler(const SamplingOptions& options_);
    void accept(int32_t token);               // prompt and generated tokens
    int32_t sample(std::span<float> logits);  // [vocab]; overwrites logits
};

// Index of the largest logit; the lowest index on ties.
int32_t argmax(std::span<const float> logits);

}  // namespace bifocal::ops
