// Rotary position embedding: frequencies with their scalings, and the rotation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::ops {

enum class RopeStyle {
    half,         // rotates (j, j + rotary_dim/2)
    interleaved,  // rotates (2j, 2j + 1)
};

enum class RopeScaling { none, linear, llama3, yarn, longrope };

// Everything that decides the rotation of one layer; plain data, from the checkpoint.
struct RopeSpec {
    double theta = 10000.0;
    int64_t rotary_dim = 0;  // first dims of a head that rotate; the rest pass through
    RopeStyle style = RopeStyle::half;

    RopeScaling scaling = RopeScaling::none;
    double factor = 1.0;
    double original_context = 0;             // llama3, yarn, longrope
    double low_freq_factor = 1.0;            // llama3
    double high_freq_factor = 4.0;           // llama3
    double beta_fast = 32.0;                 // yarn
    double beta_slow = 1.0;                  // yarn
    bool truncate = true;                    // yarn: floor and ceil the ramp's ends
    std::optional<double> attention_factor;  // multiplies cos and sin; default by the scaling
    std::vector<double> divisors;  // longrope factors, or GGUF rope_freqs: inv_freq /= divisor
};

// Inverse frequencies of a spec and the factor on cos and sin.
struct RopeTable {
    RopeStyle style = RopeStyle::half;
    int64_t rotary_dim = 0;
    double attention_factor = 1.0;
    std::vector<double> inv_freq;  // [rotary_dim / 2]
};

Result<RopeTable> make_rope_table(const RopeSpec& spec);

// cos and sin of every pair at position `pos` (angle in double, then FP32). cos, sin: [rotary_dim /
// 2]
void rope_cos_sin(const RopeTable& table, int64_t pos, std::span<float> cos, std::span<float> sin);

// Rotates one head in place. head: [D]; the first rotary_dim elements turn.
void rope_rotate(const RopeTable& table, std::span<const float> cos, std::span<const float> sin,
                 std::span<float> head);

}  // namespace bifocal::ops
