#include "ops/residual.h"

#include "ops/vector.h"

namespace bifocal::ops {

void carry_normed(const NormedResidual& residual, View<const float, 2> normed, View<float, 2> x) {
    check_shape("x", x.shape, {normed.shape[0], normed.shape[1]});
    for (int64_t i = 0; i < x.shape[0]; ++i)
        for (int64_t m = 0; m < x.shape[1]; ++m) x(i, m) = residual.stream * normed(i, m);
}

void add_branch(const NormedResidual& residual, View<const float, 2> result, View<float, 2> x) {
    check_shape("x", x.shape, {result.shape[0], result.shape[1]});
    for (int64_t i = 0; i < x.shape[0]; ++i) axpy(residual.branch, result.row(i).data(), x.row(i));
}

}  // namespace bifocal::ops
