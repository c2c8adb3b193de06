// y = x Wᵀ + b of "NAME.weight" [n_out, n_in] and, if there is one, "NAME.bias" [n_out]; with
// `first_row`, rows of a larger matrix.
#pragma once

#include <string>

#include "mixers/shared/training/maths.h"

namespace bifocal::training {

struct LinearLayer {
    std::string name;
    int64_t n_in = 0, n_out = 0;
    int64_t first_row = 0;

    bool is_there() const { return n_out > 0; }
    RunSizes sizes() const { return {n_in * n_out, n_out}; }

    template <class R>
    void forward(const Run<R>& run, View<const R, 2> x, View<R, 2> y) const;
    // dx += dy W; adds the gradients of W and b.
    template <class R>
    void backward(const Run<R>& run, View<const R, 2> x, View<const R, 2> dy, View<R, 2> dx) const;
};

}  // namespace bifocal::training
