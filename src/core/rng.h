// Rng: SplitMix64, eight bytes of state that a snapshot can store. Same seed, same numbers
// everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace bifocal {

struct Rng {
    uint64_t state = 0;

    uint64_t next() {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    // In [0, 1), 53 bits.
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    // In [0, n). REQUIRES: n > 0.
    int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }
    // Standard normal (Box-Muller).
    double normal() {
        const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
        return radius * std::cos(2.0 * std::numbers::pi * uniform());
    }
};

}  // namespace bifocal
