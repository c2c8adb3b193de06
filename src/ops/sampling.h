// Sampling, with the flags' meaning in llama.cpp and in its order: repeat penalty → top-k → top-p →
// min-p → temperature → draw; greedy at temperature 0.
// The same seed and logits give the same token on every machine: candidates have one order (larger
// logit, then lower index), and the exponential is our own.
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
    int32_t sample(std::span<float> logits);  // [vocab], not empty; overwrites logits

    // Scratch, not state: kept so that sampling does not allocate after the first token.
    std::vector<int32_t> order;
    std::vector<float> weights;
};

// Index of the largest logit; the lowest index on ties. Not-a-number never wins.
// REQUIRES: not empty.
int32_t argmax(std::span<const float> logits);

}  // namespace bifocal::ops
