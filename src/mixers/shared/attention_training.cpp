#include "mixers/shared/attention_training.h"

#include "mixers/shared/training/attention.h"
#include "mixers/shared/training/layer_form.h"
#include "mixers/shared/training/projections.h"

namespace bifocal {
namespace {

using namespace training;  // NOLINT(google-build-using-namespace): its own parts

struct AttentionInner {
    QkvTraining qkv;
    AttentionTraining core;

    template <class R>
    struct Rows {
        QkvTraining::Rows<R> qkv;
        AttentionTraining::Rows<R> core;
    };

    RunSizes sizes() const {
        RunSizes sizes = qkv.sizes();
        sizes.fit(core.sizes());
        return sizes;
    }
    void add_state(StateLayout& layout, const StateOptions& options, DType dtype) const {
        core.add_state(layout, options, dtype);
    }
    template <class R>
    void init_state(const StateLayout&, std::byte*) const {}

    template <class R, class Memory>
    Rows<R> take(Memory& memory, const StateLayout* layout, int64_t batch, int64_t n_tokens,
                 int n_threads) const {
        Rows<R> rows{qkv.take<R>(memory, batch * n_tokens),
                     core.take<R>(memory, layout, batch, n_tokens, n_threads)};
        rows.core.q = rows.qkv.q;
        rows.core.k = rows.qkv.k;
        rows.core.v = rows.qkv.v;
        return rows;
    }
    template <class R>
    View<R, 2> forward(const Run<R>& run, const Stretch<R>& stretch, View<R, 2> normed,
                       const Rows<R>& rows) const {
        qkv.forward<R>(run, normed, rows.qkv);
        core.forward(run, stretch, rows.core);
        return rows.core.out;
    }
    template <class R>
    void advance(const Stretch<R>& stretch, const Rows<R>& rows) const {
        core.advance(stretch, rows.core);
    }
    template <class R>
    void backward(const Run<R>& run, const Stretch<R>& stretch, const StretchGrads<R>& grads,
                  View<R, 2> normed, const Rows<R>& rows, View<R, 2> dheads,
                  View<R, 2> dnormed) const {
        std::copy_n(dheads.data, dheads.size(), rows.core.dout.data);
        qkv.clear_grads(rows.qkv);
        core.backward(run, stretch, grads, rows.core, rows.qkv.dq, rows.qkv.dk, rows.qkv.dv);
        qkv.backward<R>(run, normed, rows.qkv, dnormed);
    }
};

}  // namespace

TrainingForms attention_training(const AttentionConfig& config, const LayerContext& context) {
    if (!SublayerTraining::supports(context)) return {};
    return make_forms(AttentionInner{QkvTraining::of_attention(context), {config, context}},
                      context, "self_attn.o_proj", context.n_heads * context.head_dim);
}

}  // namespace bifocal
