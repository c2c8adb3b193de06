#include "mixers/bifocal/bifocal_training.h"

#include "mixers/linear/training/branch_training.h"
#include "mixers/linear/training/linear_training.h"
#include "mixers/shared/training/attention.h"
#include "mixers/shared/training/layer_form.h"
#include "mixers/shared/training/projections.h"

namespace bifocal {
namespace {

using namespace training;  // NOLINT(google-build-using-namespace): its own parts

struct BifocalInner {
    QkvTraining qkv;
    AttentionTraining near;
    linear::BranchTraining far;
    LinearLayer gate;  // [H, M]; none: half of each
    int64_t n_heads, head_dim;

    template <class R>
    struct Rows {
        QkvTraining::Rows<R> qkv;
        AttentionTraining::Rows<R> near;
        linear::BranchTraining::Rows<R> far;
        View<R, 2> gate, dgate;  // [N, H]
        View<R, 2> mixed;        // [N, H·D]
    };

    RunSizes sizes() const {
        RunSizes sizes = qkv.sizes();
        sizes.fit(near.sizes());
        sizes.fit(far.sizes());
        sizes.fit(gate.sizes());
        return sizes;
    }
    void add_state(StateLayout& layout, const StateOptions& options, DType dtype) const {
        near.add_state(layout, options, dtype);
        far.add_state(layout, dtype);
    }
    template <class R>
    void init_state(const StateLayout& layout, std::byte* state) const {
        far.init_state<R>(layout, state);
    }

    template <class R, class Memory>
    Rows<R> take(Memory& memory, const StateLayout* layout, int64_t batch, int64_t n_tokens,
                 int n_threads) const {
        const int64_t N = batch * n_tokens;
        Rows<R> rows{qkv.take<R>(memory, N),
                     near.take<R>(memory, layout, batch, n_tokens, n_threads),
                     far.take<R>(memory, batch, n_tokens, n_threads),
                     take_rows<R>(memory, N, gate.n_out),
                     take_rows<R>(memory, N, gate.n_out),
                     take_rows<R>(memory, N, n_heads * head_dim)};
        rows.near.q = rows.far.q = rows.qkv.q;
        rows.near.k = rows.far.k = rows.qkv.k;
        rows.near.v = rows.far.v = rows.qkv.v;
        return rows;
    }

    // Calls f(i, h, o): the gate of every token and head, eq. (3).
    template <class R, class F>
    void each_gate(const Run<R>& run, const Rows<R>& rows, F f) const {
        run.pool.parallel_for(rows.mixed.shape[0], 8, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                for (int64_t h = 0; h < n_heads; ++h)
                    f(i, h, gate.is_there() ? linear::sigmoid(rows.gate(i, h)) : R(0.5));
        });
    }

    template <class R>
    View<R, 2> forward(const Run<R>& run, const Stretch<R>& stretch, View<R, 2> normed,
                       const Rows<R>& rows) const {
        qkv.forward<R>(run, normed, rows.qkv);
        gate.forward<R>(run, normed, rows.gate);
        near.forward(run, stretch, rows.near);
        far.forward<R>(run, stretch, normed, rows.far);
        each_gate(run, rows, [&](int64_t i, int64_t h, R open) {
            for (int64_t j = h * head_dim; j < (h + 1) * head_dim; ++j)
                rows.mixed(i, j) = open * rows.far.y(i, j) + (1 - open) * rows.near.out(i, j);
        });
        return rows.mixed;
    }
    template <class R>
    void advance(const Stretch<R>& stretch, const Rows<R>& rows) const {
        near.advance(stretch, rows.near);
        far.advance(stretch, rows.far);
    }
    // README.md, eq. (7)-(9).
    template <class R>
    void backward(const Run<R>& run, const Stretch<R>& stretch, const StretchGrads<R>& grads,
                  View<R, 2> normed, const Rows<R>& rows, View<R, 2> dheads,
                  View<R, 2> dnormed) const {
        each_gate(run, rows, [&](int64_t i, int64_t h, R open) {
            R sum = 0;
            for (int64_t j = h * head_dim; j < (h + 1) * head_dim; ++j) {
                const R dy = dheads(i, j);
                sum += dy * (rows.far.y(i, j) - rows.near.out(i, j));
                rows.far.dy(i, j) = open * dy;
                rows.near.dout(i, j) = (1 - open) * dy;
            }
            if (gate.is_there()) rows.dgate(i, h) = sum * open * (1 - open);
        });
        qkv.clear_grads(rows.qkv);
        const auto& [q, k, v, dq, dk, dv] = rows.qkv;
        near.backward(run, stretch, grads, rows.near, dq, dk, dv);
        far.backward<R>(run, stretch, grads, normed, rows.far, dq, dk, dv, dnormed);
        gate.backward<R>(run, normed, rows.dgate, dnormed);
        qkv.backward<R>(run, normed, rows.qkv, dnormed);
    }
};

}  // namespace

TrainingForms bifocal_training(const AttentionConfig& near, const linear::LinearConfig& far,
                               const std::string& gate, const LayerContext& context) {
    if (!linear::is_trainable(far, context)) return {};
    const int64_t H = context.n_heads, D = context.head_dim;
    const LinearLayer mix = gate.empty() ? LinearLayer{} : LinearLayer{gate, context.d_model, H};
    return make_forms(
        BifocalInner{
            QkvTraining::of_attention(context), {near, context}, {far, context}, mix, H, D},
        context, "self_attn.o_proj", H * D);
}

}  // namespace bifocal
