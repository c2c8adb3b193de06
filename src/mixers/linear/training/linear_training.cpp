#include "mixers/linear/training/linear_training.h"

#include "mixers/linear/training/branch_training.h"
#include "mixers/shared/training/layer_form.h"
#include "mixers/shared/training/projections.h"

namespace bifocal::linear {
namespace {

using namespace training;  // NOLINT(google-build-using-namespace): its own parts

struct LinearInner {
    QkvTraining qkv;
    BranchTraining branch;

    template <class R>
    struct Rows {
        QkvTraining::Rows<R> qkv;
        BranchTraining::Rows<R> branch;
    };

    RunSizes sizes() const {
        RunSizes sizes = qkv.sizes();
        sizes.fit(branch.sizes());
        return sizes;
    }
    void add_state(StateLayout& layout, const StateOptions&, DType dtype) const {
        branch.add_state(layout, dtype);
    }
    template <class R>
    void init_state(const StateLayout& layout, std::byte* state) const {
        branch.init_state<R>(layout, state);
    }

    template <class R, class Memory>
    Rows<R> take(Memory& memory, const StateLayout*, int64_t batch, int64_t n_tokens,
                 int n_threads) const {
        Rows<R> rows{qkv.take<R>(memory, batch * n_tokens),
                     branch.take<R>(memory, batch, n_tokens, n_threads)};
        rows.branch.q = rows.qkv.q;
        rows.branch.k = rows.qkv.k;
        rows.branch.v = rows.qkv.v;
        return rows;
    }
    template <class R>
    View<R, 2> forward(const Run<R>& run, const Stretch<R>& stretch, View<R, 2> normed,
                       const Rows<R>& rows) const {
        qkv.forward<R>(run, normed, rows.qkv);
        branch.forward<R>(run, stretch, normed, rows.branch);
        return rows.branch.y;
    }
    template <class R>
    void advance(const Stretch<R>& stretch, const Rows<R>& rows) const {
        branch.advance(stretch, rows.branch);
    }
    template <class R>
    void backward(const Run<R>& run, const Stretch<R>& stretch, const StretchGrads<R>& grads,
                  View<R, 2> normed, const Rows<R>& rows, View<R, 2> dheads,
                  View<R, 2> dnormed) const {
        std::copy_n(dheads.data, dheads.size(), rows.branch.dy.data);
        qkv.clear_grads(rows.qkv);
        branch.backward<R>(run, stretch, grads, normed, rows.branch, rows.qkv.dq, rows.qkv.dk,
                           rows.qkv.dv, dnormed);
        qkv.backward<R>(run, normed, rows.qkv, dnormed);
    }
};

}  // namespace

bool is_trainable(const LinearConfig& config, const LayerContext& context) {
    return config.has_backward && !config.packs_heads && has_backward(config.recurrence) &&
           SublayerTraining::supports(context);
}

TrainingForms linear_training(const LinearConfig& c, const LayerContext& context) {
    if (!is_trainable(c, context)) return {};
    const int64_t M = context.d_model, q = c.n_query * c.head_dim, k = c.n_key * c.head_dim;
    const int64_t v = c.n_value * c.value_dim();
    const auto name = [&](const char* own) {
        return c.qkv_prefix + (c.is_fused ? "in_proj_qkv" : own);
    };
    const QkvTraining qkv{{name("q_proj"), M, q, 0},
                          {name("k_proj"), M, k, c.is_fused ? q : 0},
                          {name("v_proj"), M, v, c.is_fused ? q + k : 0}};
    return make_forms(LinearInner{qkv, {c, context}}, context, c.prefix + c.out_name,
                      c.n_out_heads() * c.value_dim());
}

}  // namespace bifocal::linear
