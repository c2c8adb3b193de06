#include "mixers/shared/training/sublayer.h"

#include "mixers/shared/training/rows.h"

namespace bifocal::training {
namespace {

constexpr const char* kNorm = "input_layernorm.weight";
constexpr const char* kPostNorm = "post_attention_layernorm.weight";

}  // namespace

RunSizes SublayerTraining::sizes() const {
    RunSizes sizes = out_.sizes();
    sizes.fit({0, context_.d_model});
    return sizes;
}

template <class R>
void SublayerTraining::norm(const Run<R>& run, View<const R, 2> x, View<R, 2> normed) const {
    const R* const weight = run.weight(kNorm);
    run.pool.parallel_for(x.shape[0], 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            rms_norm_row(x.row(i).data(), weight, static_cast<R>(context_.norm_offset),
                         static_cast<R>(context_.norm_eps), context_.d_model, normed.row(i).data());
    });
}

template <class R>
void SublayerTraining::add_result(const Run<R>& run, const Rows<R>& rows, View<const R, 2> heads,
                                  View<const R, 2> x, View<R, 2> y) const {
    const int64_t M = context_.d_model;
    out_.forward(run, heads, rows.result);
    const R* const weight = context_.post_norm ? run.weight(kPostNorm) : nullptr;
    run.pool.parallel_for(x.shape[0], 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            R* const result = rows.result.row(i).data();
            if (weight != nullptr)
                rms_norm_row<R>(result, weight, static_cast<R>(context_.norm_offset),
                                static_cast<R>(context_.norm_eps), M, result);
            for (int64_t m = 0; m < M; ++m) y(i, m) = x(i, m) + result[m];
        }
    });
}

template <class R>
void SublayerTraining::any_norm_backward(const Run<R>& run, const char* name, View<const R, 2> x,
                                         View<const R, 2> dy, View<R, 2> dx) const {
    const R* const weight = run.weight(name);
    R* const dweight = run.grad(name);
    run.sum_over_tokens(
        x.shape[0], context_.d_model,
        [&](int64_t i, R* sums, int) {
            rms_norm_row_backward(x.row(i).data(), weight, static_cast<R>(context_.norm_offset),
                                  static_cast<R>(context_.norm_eps), context_.d_model,
                                  dy.row(i).data(), dx.row(i).data(), sums);
        },
        [&](int64_t m, R sum) {
            if (dweight != nullptr) dweight[m] += sum;
        });
}

template <class R>
void SublayerTraining::add_result_backward(const Run<R>& run, const Rows<R>& rows,
                                           View<const R, 2> heads, View<const R, 2> dy,
                                           View<R, 2> dheads) const {
    clear(dheads);
    if (!context_.post_norm) return out_.backward(run, heads, dy, dheads);
    out_.forward(run, heads, rows.result);
    clear(rows.dresult);
    any_norm_backward<R>(run, kPostNorm, rows.result, dy, rows.dresult);
    out_.backward<R>(run, heads, rows.dresult, dheads);
}

template <class R>
void SublayerTraining::norm_backward(const Run<R>& run, View<const R, 2> x,
                                     View<const R, 2> dnormed, View<const R, 2> dy,
                                     View<R, 2> dx) const {
    std::copy_n(dy.data, dy.size(), dx.data);
    any_norm_backward(run, kNorm, x, dnormed, dx);
}

#define BIFOCAL_FOR(R)                                                                          \
    template void SublayerTraining::norm(const Run<R>&, View<const R, 2>, View<R, 2>) const;    \
    template void SublayerTraining::add_result(const Run<R>&, const Rows<R>&, View<const R, 2>, \
                                               View<const R, 2>, View<R, 2>) const;             \
    template void SublayerTraining::add_result_backward(                                        \
        const Run<R>&, const Rows<R>&, View<const R, 2>, View<const R, 2>, View<R, 2>) const;   \
    template void SublayerTraining::norm_backward(                                              \
        const Run<R>&, View<const R, 2>, View<const R, 2>, View<const R, 2>, View<R, 2>) const;
BIFOCAL_FOR(float)
BIFOCAL_FOR(double)
#undef BIFOCAL_FOR

}  // namespace bifocal::training
