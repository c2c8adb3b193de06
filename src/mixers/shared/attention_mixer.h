// AttentionMixer: the sublayer that softmax mixers share: pre-norm, q/k/v projections, attention
// over a KvRing, output projection, residual. A kind of attention is an AttentionConfig; what the
// projections are, QkvProjection or LatentProjection, is the layer's.
#pragma once

#include <vector>

#include "mixers/shared/attention_core.h"
#include "mixers/shared/sublayer.h"

namespace bifocal {

template <class Projection>
class AttentionMixer final : public Mixer {
  public:
    AttentionMixer(AttentionConfig config, LayerContext context);

    const MixerSpec& spec() const override { return core_.config().spec; }
    MixerTraits traits() const override;
    std::vector<WeightSpec> weights() const override;
    Status bind(const WeightMap& weights) override;

    StateLayout state_layout(const StateOptions& options) const override;
    void init_state(const StateLayout& layout, std::byte* state) const override;
    int64_t rewind_limit(const StateLayout& layout, int64_t pos) const override;
    int64_t tokens_visible(const StateLayout& layout, int64_t pos) const override;

    size_t workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                           int n_threads) const override;
    void forward(const Chunk& chunk, Exec& exec) const override;
    ReferenceForward reference(const WeightMap& weights, const StateOptions& options,
                               Real real) const override;
    ReferenceForward recurrent_reference(const WeightMap& weights,
                                         const StateOptions& options) const override;
    TrainingForms training() const override;

    std::vector<std::string> describe() const override;
    int64_t weight_bytes() const override;

  private:
    LayerContext context_;
    AttentionCore core_;
    Sublayer sublayer_;
    Projection projection_;
};

// A factory's last step.
Result<std::unique_ptr<Mixer>> make_attention(AttentionConfig config, const LayerContext& context);

}  // namespace bifocal
