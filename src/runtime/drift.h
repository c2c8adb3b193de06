// How far two ways through the same model lie apart, from the logits they give to the same tokens.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/scoring.h"

namespace bifocal {

struct Drift {
    double max_abs = 0;  // largest difference of a logit
    Average kl;          // KL(reference || path) at each token, in nats
    double max_kl = 0;
    int64_t same_top = 0;    // tokens whose likeliest next token is the same
    int64_t bit_equal = 0;   // tokens with the same bits
    int64_t not_finite = 0;  // logits that are NaN or infinite, in either

    int64_t tokens() const { return kl.count(); }
    // One row of logits of each way.
    void add(std::span<const float> reference, std::span<const float> path);
};

}  // namespace bifocal
