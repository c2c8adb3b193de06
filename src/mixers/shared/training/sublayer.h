// The two ends of every sublayer, there and back: the norm before it; its output projection, norm
// and residual after it.
#pragma once

#include "mixers/shared/training/linear_layer.h"
#include "mixers/spec.h"

namespace bifocal::training {

class SublayerTraining {
  public:
    // out: name of the output projection, [M, n_in].
    SublayerTraining(const LayerContext& context, std::string out, int64_t n_in)
        : context_(context), out_{std::move(out), n_in, context.d_model} {}

    // Gated heads, latent keys and residuals that are normed have no backward.
    static bool supports(const LayerContext& context) {
        return !context.output_gate && !context.latent && !context.residual;
    }

    RunSizes sizes() const;
    // Rows that the two below need, [N, M].
    template <class R>
    struct Rows {
        View<R, 2> result, dresult;  // dresult only backward
    };
    template <class R, class Memory>
    Rows<R> take(Memory& memory, int64_t n) const {
        return {take_rows<R>(memory, n, context_.d_model),
                take_rows<R>(memory, n, context_.d_model)};
    }

    template <class R>
    void norm(const Run<R>& run, View<const R, 2> x, View<R, 2> normed) const;
    // y = x + norm(W_o heads + b_o)
    template <class R>
    void add_result(const Run<R>& run, const Rows<R>& rows, View<const R, 2> heads,
                    View<const R, 2> x, View<R, 2> y) const;

    // dheads of dy, overwritten.
    template <class R>
    void add_result_backward(const Run<R>& run, const Rows<R>& rows, View<const R, 2> heads,
                             View<const R, 2> dy, View<R, 2> dheads) const;
    // dx = dy, which goes past the layer, + what dnormed gives.
    template <class R>
    void norm_backward(const Run<R>& run, View<const R, 2> x, View<const R, 2> dnormed,
                       View<const R, 2> dy, View<R, 2> dx) const;

  private:
    // dx += J dy of the norm `name`, by row.
    template <class R>
    void any_norm_backward(const Run<R>& run, const char* name, View<const R, 2> x,
                           View<const R, 2> dy, View<R, 2> dx) const;

    LayerContext context_;
    LinearLayer out_;
};

}  // namespace bifocal::training
