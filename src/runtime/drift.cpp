#include "runtime/drift.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/sampling.h"

namespace bifocal {

void Drift::add(std::span<const float> reference, std::span<const float> path) {
    if (std::memcmp(reference.data(), path.data(), reference.size_bytes()) == 0) ++bit_equal;
    bool finite = true;
    for (size_t i = 0; i < reference.size(); ++i) {
        if (!std::isfinite(reference[i]) || !std::isfinite(path[i])) {
            ++not_finite;
            finite = false;
            continue;
        }
        max_abs = std::max(max_abs, std::abs(static_cast<double>(reference[i]) - path[i]));
    }
    const double divergence = finite ? kl_divergence(reference, path) : INFINITY;
    kl.add(divergence);
    max_kl = std::max(max_kl, divergence);
    if (ops::argmax(reference) == ops::argmax(path)) ++same_top;
}

}  // namespace bifocal
