#include "mixers/shared/attention_mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "mixers/shared/attention_training.h"
#include "mixers/shared/training/sublayer.h"
#include "mixers/shared/weights.h"

namespace bifocal {

AttentionMixer::AttentionMixer(AttentionConfig config, LayerContext context)
    : context_(std::move(context)), core_(std::move(config), context_) {}

Result<std::unique_ptr<Mixer>> make_attention(AttentionConfig config, const LayerContext& context) {
    BIFOCAL_TRY_STATUS(check_attention(context));
    return std::unique_ptr<Mixer>(std::make_unique<AttentionMixer>(std::move(config), context));
}

std::vector<WeightSpec> AttentionMixer::weights() const {
    std::vector<WeightSpec> list =
        Sublayer::weights(context_, "self_attn.o_proj", context_.n_heads * context_.head_dim);
    QkvProjection::add_weights(list, context_);
    core_.add_weights(list);
    return list;
}

Status AttentionMixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    BIFOCAL_TRY_STATUS(qkv_.bind(context_, weights));
    BIFOCAL_TRY_STATUS(sublayer_.bind(context_, "self_attn.o_proj", weights));
    return core_.bind(weights);
}

StateLayout AttentionMixer::state_layout(const StateOptions& options) const {
    StateLayout layout;
    core_.add_state(layout, options);
    return layout;
}

void AttentionMixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
}

int64_t AttentionMixer::rewind_limit(const StateLayout& layout, int64_t pos) const {
    return core_.rewind_limit(layout, pos);
}

int64_t AttentionMixer::tokens_visible(const StateLayout& layout, int64_t pos) const {
    return core_.tokens_visible(layout, pos);
}

size_t AttentionMixer::workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                                       int) const {
    const int64_t N = batch * n_tokens, M = context_.d_model;
    return align_up(static_cast<size_t>(N * M) * sizeof(float)) +
           QkvProjection::row_bytes(context_, N) +
           std::max({core_.workspace_bytes(layout, batch, n_tokens),
                     ops::linear_workspace_bytes(N, M), sublayer_.workspace_bytes(N)});
}

void AttentionMixer::forward(const Chunk& chunk, Exec& exec) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = context_.d_model;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (B * T == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> x(chunk.x.data, {B * T, M});
    const View<float, 2> normed(exec.workspace.take<float>(B * T * M).data(), {B * T, M});
    sublayer_.norm(x, normed, exec);
    const QkvRows rows = QkvProjection::take_rows(context_, B * T, exec);
    ops::LinearCall calls[4];
    const size_t n = qkv_.add_calls(rows, calls);
    ops::linear_forward(normed, {calls, n}, exec);
    core_.run(chunk, rows.q, rows.k, rows.v, exec);
    qkv_.apply_gate(rows, rows.q, exec);
    sublayer_.add_result(rows.q, normed, x, exec);
}

ReferenceForward AttentionMixer::reference(const WeightMap& weights, const StateOptions& options,
                                           Real real) const {
    const DenseAttention dense = core_.dense(weights, options);
    if (real == Real::f64)
        return [dense](View<double, 2> x) { dense.add_result(dense.heads(x), x); };
    return in_float([dense](View<float, 2> x) { dense.add_result(dense.heads(x), x); });
}

ReferenceForward AttentionMixer::recurrent_reference(const WeightMap& weights,
                                                     const StateOptions& options) const {
    const DenseAttention dense = core_.dense(weights, options);
    return [dense](View<double, 2> x) { dense.add_result(dense.heads_recurrent(x), x); };
}

MixerTraits AttentionMixer::traits() const {
    return {.trainable = training::SublayerTraining::supports(context_),
            .same_bits_for_any_chunking = true};
}

TrainingForms AttentionMixer::training() const {
    return attention_training(core_.config(), context_);
}

std::vector<std::string> AttentionMixer::describe() const {
    std::vector<std::string> lines = qkv_.describe();
    lines.push_back(fmt::format("{}: {}", sublayer_.out().name(), sublayer_.out().kernel()));
    lines.push_back(core_.describe());
    return lines;
}

int64_t AttentionMixer::weight_bytes() const {
    return qkv_.weight_bytes() + sublayer_.out().weight_bytes();
}

}  // namespace bifocal
