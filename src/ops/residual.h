// How a sublayer's result joins the residual stream, where it is not x += result.
#pragma once

#include "core/view.h"

namespace bifocal::ops {

// x = stream · norm(x) + branch · result: the sublayer's normed input goes on, not x itself
// (MiniMax).
struct NormedResidual {
    float stream = 1;
    float branch = 1;
};

// The two halves of it, [N, M] each. x = stream · normed
void carry_normed(const NormedResidual& residual, View<const float, 2> normed, View<float, 2> x);
// x += branch · result
void add_branch(const NormedResidual& residual, View<const float, 2> result, View<float, 2> x);

}  // namespace bifocal::ops
