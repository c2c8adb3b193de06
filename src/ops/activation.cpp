#include "ops/activation.h"

#include <algorithm>

#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {

void gated_activation(Activation activation, std::span<float> a, std::span<const float> b) {
    BIFOCAL_CHECK(a.size() == b.size(), "gate of {}, up of {} elements", a.size(), b.size());
    const auto n = static_cast<int64_t>(a.size());
    switch (activation) {
        case Activation::silu:
            return kernels().silu_mul(a.data(), b.data(), n);
        case Activation::gelu_tanh:
            return kernels().gelu_tanh_mul(a.data(), b.data(), n);
        case Activation::clamped_swiglu:
            return kernels().clamped_swiglu_mul(a.data(), b.data(), n);
    }
}

void gated_activation(Activation activation, View<float, 2> a, View<const float, 2> b, Exec& exec) {
    check_shape("up", b.shape, {a.shape[0], a.shape[1]});
    const int64_t grain = std::max<int64_t>(1, 4096 / a.shape[1]);
    exec.pool.parallel_for(a.shape[0], grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) gated_activation(activation, a.row(t), b.row(t));
    });
}

}  // namespace bifocal::ops
