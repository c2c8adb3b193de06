#include "mixers/shared/attention_mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "mixers/shared/attention_training.h"
#include "mixers/shared/latent_projection.h"
#include "mixers/shared/qkv_projection.h"
#include "mixers/shared/training/sublayer.h"
#include "mixers/shared/weights.h"

namespace bifocal {

template <class Projection>
AttentionMixer<Projection>::AttentionMixer(AttentionConfig config, LayerContext context)
    : context_(std::move(context)), core_(std::move(config), context_) {}

template <class Projection>
std::vector<WeightSpec> AttentionMixer<Projection>::weights() const {
    std::vector<WeightSpec> list =
        Sublayer::weights(context_, "self_attn.o_proj", Projection::width(context_));
    Projection::add_weights(list, context_);
    core_.add_weights(list);
    return list;
}

template <class Projection>
Status AttentionMixer<Projection>::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    BIFOCAL_TRY_STATUS(projection_.bind(context_, weights));
    BIFOCAL_TRY_STATUS(sublayer_.bind(context_, "self_attn.o_proj", weights));
    return core_.bind(weights);
}

template <class Projection>
StateLayout AttentionMixer<Projection>::state_layout(const StateOptions& options) const {
    StateLayout layout;
    core_.add_state(layout, options);
    return layout;
}

template <class Projection>
void AttentionMixer<Projection>::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
}

template <class Projection>
int64_t AttentionMixer<Projection>::rewind_limit(const StateLayout& layout, int64_t pos) const {
    return core_.rewind_limit(layout, pos);
}

template <class Projection>
int64_t AttentionMixer<Projection>::tokens_visible(const StateLayout& layout, int64_t pos) const {
    return core_.tokens_visible(layout, pos);
}

template <class Projection>
size_t AttentionMixer<Projection>::workspace_bytes(const StateLayout& layout, int64_t batch,
                                                   int64_t n_tokens, int) const {
    const int64_t N = batch * n_tokens, M = context_.d_model;
    return align_up(static_cast<size_t>(N * M) * sizeof(float)) +
           Projection::row_bytes(context_, N) +
           std::max({core_.workspace_bytes(layout, batch, n_tokens),
                     Projection::workspace_bytes(context_, N), sublayer_.workspace_bytes(N)});
}

template <class Projection>
void AttentionMixer<Projection>::forward(const Chunk& chunk, Exec& exec) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = context_.d_model;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (B * T == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> x(chunk.x.data, {B * T, M});
    const View<float, 2> normed(exec.workspace.take<float>(B * T * M).data(), {B * T, M});
    sublayer_.norm(x, normed, exec);
    const auto rows = Projection::take_rows(context_, B * T, exec);
    projection_.project(normed, rows, exec);
    core_.run(chunk, rows.q, rows.k, rows.v, exec);
    sublayer_.add_result(projection_.finish(rows, exec), normed, x, exec);
}

template <class Projection>
ReferenceForward AttentionMixer<Projection>::reference(const WeightMap& weights,
                                                       const StateOptions& options,
                                                       Real real) const {
    const DenseAttention dense = core_.dense(weights, options);
    if (real == Real::f64)
        return [dense](View<double, 2> x) { dense.add_result(dense.heads(x), x); };
    return in_float([dense](View<float, 2> x) { dense.add_result(dense.heads(x), x); });
}

template <class Projection>
ReferenceForward AttentionMixer<Projection>::recurrent_reference(
    const WeightMap& weights, const StateOptions& options) const {
    const DenseAttention dense = core_.dense(weights, options);
    return [dense](View<double, 2> x) { dense.add_result(dense.heads_recurrent(x), x); };
}

template <class Projection>
MixerTraits AttentionMixer<Projection>::traits() const {
    MixerTraits traits;
    traits.trainable = training::SublayerTraining::supports(context_);
    traits.same_bits_for_any_chunking = true;
    return traits;
}

template <class Projection>
TrainingForms AttentionMixer<Projection>::training() const {
    return attention_training(core_.config(), context_);
}

template <class Projection>
std::vector<std::string> AttentionMixer<Projection>::describe() const {
    std::vector<std::string> lines = projection_.describe();
    lines.push_back(fmt::format("{}: {}", sublayer_.out().name(), sublayer_.out().kernel()));
    lines.push_back(core_.describe());
    return lines;
}

template <class Projection>
int64_t AttentionMixer<Projection>::weight_bytes() const {
    return projection_.weight_bytes() + sublayer_.out().weight_bytes();
}

Result<std::unique_ptr<Mixer>> make_attention(AttentionConfig config, const LayerContext& context) {
    BIFOCAL_TRY_STATUS(check_attention(context));
    if (context.latent)
        return std::unique_ptr<Mixer>(
            std::make_unique<AttentionMixer<LatentProjection>>(std::move(config), context));
    return std::unique_ptr<Mixer>(
        std::make_unique<AttentionMixer<QkvProjection>>(std::move(config), context));
}

}  // namespace bifocal
