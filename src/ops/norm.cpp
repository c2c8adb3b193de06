#include "ops/norm.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {

void rms_norm_row(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> y) {
    BIFOCAL_CHECK(x.size() == weight.size() && x.size() == y.size(),
                  "rms_norm: x, weight and y have {}, {} and {} elements", x.size(), weight.size(),
                  y.size());
    const auto n = static_cast<int64_t>(x.size());
    if (n == 0) return;
    const KernelSet& k = kernels();
    const float mean = k.dot(x.data(), x.data(), n) / static_cast<float>(n);
    k.norm_scale(x.data(), 1.0f / std::sqrt(mean + eps), weight.data(), y.data(), n);
}

void rms_norm(View<const float, 2> x, std::span<const float> weight, float eps, View<float, 2> y,
              Exec& exec) {
    check_shape("y", y.shape, {x.shape[0], x.shape[1]});
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, x.shape[1]));
    exec.pool.parallel_for(x.shape[0], grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) rms_norm_row(x.row(t), weight, eps, y.row(t));
    });
}

}  // namespace bifocal::ops
