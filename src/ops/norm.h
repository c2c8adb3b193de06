// RMSNorm over the last dimension; the sum runs in one fixed order, so a row does not depend on its
// neighbours.
#pragma once

#include <span>

#include "core/view.h"
#include "ops/exec.h"

namespace bifocal::ops {

// y = x / sqrt(mean(x²) + eps) * weight, one row. x, y, weight: [M]; y may be x.
// The (1 + w) families add their offset to `weight` when it is loaded.
void rms_norm_row(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y);

// Every row of x: [T, M] → y: [T, M]
void rms_norm(View<const float, 2> x, std::span<const float> weight, float eps, View<float, 2> y,
              Exec& exec);

}  // namespace bifocal::ops
