// LayerForm: the TrainingForm of a sublayer whose middle, between the norm and the output
// projection, is an Inner:
//   sizes(), add_state(layout, options, dtype), init_state<R>(layout, state)
//   take<R>(memory, layout, batch, n_tokens, n_threads) -> Inner::Rows<R>
//   forward(run, stretch, normed, rows) -> what the heads give, [N, width]
//   advance(stretch, rows): the states go on; after forward()
//   backward(run, stretch, grads, normed, rows, dheads, dnormed): adds to dnormed; after forward()
#pragma once

#include <cstring>

#include "core/check.h"
#include "mixers/shared/training/sublayer.h"

namespace bifocal::training {

template <class R, class Inner>
class LayerForm final : public TrainingForm<R> {
  public:
    LayerForm(Inner inner, SublayerTraining ends, int64_t d_model, int64_t width, bool is_plain)
        : inner_(std::move(inner)),
          ends_(std::move(ends)),
          d_model_(d_model),
          width_(width),
          maths_{is_plain} {}

    StateLayout state_layout(const StateOptions& options) const override {
        StateLayout layout;
        inner_.add_state(layout, options, std::is_same_v<R, double> ? DType::f64 : DType::f32);
        return layout;
    }
    void init_state(const StateLayout& layout, std::byte* state) const override {
        std::memset(state, 0, layout.bytes);
        inner_.template init_state<R>(layout, state);
    }
    size_t workspace_bytes(const StateLayout* layout, int64_t batch, int64_t n_tokens,
                           int n_threads) const override {
        ByteCount count;
        take(count, layout, batch, n_tokens, n_threads);
        return count.bytes;
    }

    void forward(const Stretch<R>& stretch, View<R, 3> y, Exec& exec) const override {
        const int64_t B = stretch.x.shape[0], T = stretch.x.shape[1], N = B * T;
        check_shape("x", stretch.x.shape, {B, T, d_model_});
        check_shape("y", y.shape, {B, T, d_model_});
        if (N == 0) return;
        const Workspace::Frame frame(exec.workspace);
        const Rows rows = take(exec.workspace, stretch.layout, B, T, exec.pool.size());
        const Run<R> run{maths_, exec.pool, stretch.weights, nullptr, rows.turned, rows.partial};
        const View<const R, 2> x(stretch.x.data, {N, d_model_});
        ends_.norm(run, x, rows.normed);
        const View<R, 2> heads = inner_.forward(run, stretch, rows.normed, rows.inner);
        ends_.template add_result<R>(run, rows.ends, heads, x, View<R, 2>(y.data, {N, d_model_}));
        inner_.advance(stretch, rows.inner);
    }

    void backward(const Stretch<R>& stretch, const StretchGrads<R>& grads,
                  Exec& exec) const override {
        const int64_t B = stretch.x.shape[0], T = stretch.x.shape[1], N = B * T;
        check_shape("x", stretch.x.shape, {B, T, d_model_});
        check_shape("dy", grads.dy.shape, {B, T, d_model_});
        check_shape("dx", grads.dx.shape, {B, T, d_model_});
        BIFOCAL_CHECK(grads.dstates.size() == stretch.states.size(), "{} states, {} gradients",
                      stretch.states.size(), grads.dstates.size());
        if (N == 0) return;
        const Workspace::Frame frame(exec.workspace);
        const Rows rows = take(exec.workspace, stretch.layout, B, T, exec.pool.size());
        const Run<R> run{maths_,         exec.pool,   stretch.weights,
                         &grads.weights, rows.turned, rows.partial};
        const View<const R, 2> x(stretch.x.data, {N, d_model_}), dy(grads.dy.data, {N, d_model_});
        ends_.norm(run, x, rows.normed);
        const View<R, 2> heads = inner_.forward(run, stretch, rows.normed, rows.inner);
        ends_.template add_result_backward<R>(run, rows.ends, heads, dy, rows.dheads);
        clear(rows.dnormed);
        inner_.backward(run, stretch, grads, rows.normed, rows.inner, rows.dheads, rows.dnormed);
        ends_.template norm_backward<R>(run, x, rows.dnormed, dy,
                                        View<R, 2>(grads.dx.data, {N, d_model_}));
    }

  private:
    struct Rows {
        View<R, 2> normed, dnormed, dheads;
        SublayerTraining::Rows<R> ends;
        typename Inner::template Rows<R> inner;
        R *turned, *partial;
    };
    template <class Memory>
    Rows take(Memory& memory, const StateLayout* layout, int64_t batch, int64_t n_tokens,
              int n_threads) const {
        const int64_t N = batch * n_tokens;
        Rows rows;
        rows.normed = take_rows<R>(memory, N, d_model_);
        rows.dnormed = take_rows<R>(memory, N, d_model_);
        rows.dheads = take_rows<R>(memory, N, width_);
        rows.ends = ends_.take<R>(memory, N);
        rows.inner = inner_.template take<R>(memory, layout, batch, n_tokens, n_threads);
        RunSizes sizes = ends_.sizes();
        sizes.fit(inner_.sizes());
        take_scratch(memory, sizes, N, rows.turned, rows.partial);
        return rows;
    }

    Inner inner_;
    SublayerTraining ends_;
    int64_t d_model_, width_;
    Maths<R> maths_;
};

// out: name of the output projection of `width` inputs.
template <class Inner>
TrainingForms make_forms(const Inner& inner, const LayerContext& context, const std::string& out,
                         int64_t width) {
    const SublayerTraining ends(context, out, width);
    const int64_t M = context.d_model;
    return {std::make_unique<LayerForm<float, Inner>>(inner, ends, M, width, false),
            std::make_unique<LayerForm<float, Inner>>(inner, ends, M, width, true),
            std::make_unique<LayerForm<double, Inner>>(inner, ends, M, width, false)};
}

}  // namespace bifocal::training
