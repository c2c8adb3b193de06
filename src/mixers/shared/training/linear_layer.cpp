#include "mixers/shared/training/linear_layer.h"

namespace bifocal::training {
namespace {

constexpr int64_t kRows = 32;  // that go through a product together

}  // namespace

template <class R>
void LinearLayer::forward(const Run<R>& run, View<const R, 2> x, View<R, 2> y) const {
    if (!is_there()) return;
    const int64_t n = x.shape[0];
    const R* const w = run.weight(name + ".weight") + first_row * n_in;
    const R* bias = run.weight(name + ".bias");
    if (bias != nullptr) bias += first_row;
    run.pool.parallel_for(n_in, 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t o = 0; o < n_out; ++o) run.turned[i * n_out + o] = w[o * n_in + i];
    });
    run.pool.parallel_for(n, kRows, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            if (bias == nullptr) {
                std::fill_n(y.row(i).data(), n_out, R(0));
            } else {
                std::copy_n(bias, n_out, y.row(i).data());
            }
        }
        run.maths.product({end - begin, n_out, n_in, x.row(begin).data(), n_in, 1, run.turned,
                           n_out, y.row(begin).data(), n_out, true});
    });
}

template <class R>
void LinearLayer::backward(const Run<R>& run, View<const R, 2> x, View<const R, 2> dy,
                           View<R, 2> dx) const {
    if (!is_there()) return;
    const int64_t n = x.shape[0];
    const R* const w = run.weight(name + ".weight") + first_row * n_in;
    run.pool.parallel_for(n, kRows, [&](int64_t begin, int64_t end, int) {
        run.maths.product({end - begin, n_in, n_out, dy.row(begin).data(), n_out, 1, w, n_in,
                           dx.row(begin).data(), n_in, true});
    });
    if (R* const dw = run.grad(name + ".weight")) {
        run.pool.parallel_for(n_out, kRows, [&](int64_t begin, int64_t end, int) {
            run.maths.product({end - begin, n_in, n, dy.data + begin, 1, n_out, x.data, n_in,
                               dw + (first_row + begin) * n_in, n_in, true});
        });
    }
    if (R* const db = run.grad(name + ".bias")) {
        run.sum_over_tokens(
            n, n_out,
            [&](int64_t i, R* sums, int) {
                for (int64_t o = 0; o < n_out; ++o) sums[o] += dy(i, o);
            },
            [&](int64_t o, R sum) { db[first_row + o] += sum; });
    }
}

template void LinearLayer::forward(const Run<float>&, View<const float, 2>, View<float, 2>) const;
template void LinearLayer::forward(const Run<double>&, View<const double, 2>,
                                   View<double, 2>) const;
template void LinearLayer::backward(const Run<float>&, View<const float, 2>, View<const float, 2>,
                                    View<float, 2>) const;
template void LinearLayer::backward(const Run<double>&, View<const double, 2>,
                                    View<const double, 2>, View<double, 2>) const;

}  // namespace bifocal::training
