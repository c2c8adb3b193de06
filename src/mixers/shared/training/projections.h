// The q, k and v projections of a layer, there and back.
#pragma once

#include "mixers/shared/training/linear_layer.h"

namespace bifocal::training {

struct QkvTraining {
    LinearLayer q, k, v;

    // The names of QkvProjection.
    static QkvTraining of_attention(const LayerContext& context) {
        const int64_t M = context.d_model, D = context.head_dim;
        return {{"self_attn.q_proj", M, context.n_heads * D},
                {"self_attn.k_proj", M, context.n_kv_heads * D},
                {"self_attn.v_proj", M, context.n_kv_heads * D}};
    }
    RunSizes sizes() const {
        RunSizes sizes = q.sizes();
        sizes.fit(k.sizes());
        sizes.fit(v.sizes());
        return sizes;
    }

    template <class R>
    struct Rows {
        View<R, 2> q, k, v;     // [N, width]
        View<R, 2> dq, dk, dv;  // backward
    };
    template <class R, class Memory>
    Rows<R> take(Memory& memory, int64_t n) const {
        return {take_rows<R>(memory, n, q.n_out), take_rows<R>(memory, n, k.n_out),
                take_rows<R>(memory, n, v.n_out), take_rows<R>(memory, n, q.n_out),
                take_rows<R>(memory, n, k.n_out), take_rows<R>(memory, n, v.n_out)};
    }

    template <class R>
    void forward(const Run<R>& run, View<const R, 2> normed, const Rows<R>& rows) const {
        q.forward(run, normed, rows.q);
        k.forward(run, normed, rows.k);
        v.forward(run, normed, rows.v);
    }
    template <class R>
    void clear_grads(const Rows<R>& rows) const {
        clear(rows.dq);
        clear(rows.dk);
        clear(rows.dv);
    }
    // dnormed += what dq, dk and dv give.
    template <class R>
    void backward(const Run<R>& run, View<const R, 2> normed, const Rows<R>& rows,
                  View<R, 2> dnormed) const {
        q.backward<R>(run, normed, rows.dq, dnormed);
        k.backward<R>(run, normed, rows.dk, dnormed);
        v.backward<R>(run, normed, rows.dv, dnormed);
    }
};

}  // namespace bifocal::training
