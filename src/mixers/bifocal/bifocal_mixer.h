// BifocalMixer: one sublayer with an AttentionCore and a LinearBranch on the same q, k, v.
#pragma once

#include "mixers/linear/branch.h"
#include "mixers/shared/attention_core.h"
#include "mixers/shared/qkv_projection.h"
#include "mixers/shared/sublayer.h"

namespace bifocal {

class BifocalMixer final : public Mixer {
  public:
    BifocalMixer(AttentionConfig near, linear::LinearConfig far, bool has_gate,
                 LayerContext context);

    const MixerSpec& spec() const override { return near_.config().spec; }
    MixerTraits traits() const override;
    std::vector<WeightSpec> weights() const override;
    Status bind(const WeightMap& weights) override;

    StateLayout state_layout(const StateOptions& options) const override;
    void init_state(const StateLayout& layout, std::byte* state) const override;
    int64_t rewind_limit(const StateLayout&, int64_t) const override { return 0; }
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
    int64_t gate_width() const { return has_gate_ ? context_.n_heads : 0; }
    size_t copy_bytes(int64_t n_rows) const;
    void mix(View<const float, 2> gate, View<const float, 2> far, View<float, 2> near,
             Exec& exec) const;

    LayerContext context_;
    bool has_gate_;  // else half of each
    AttentionCore near_;
    linear::LinearBranch far_;
    QkvProjection qkv_;
    Sublayer sublayer_;
    ops::Linear gate_;  // [H, M]
};

}  // namespace bifocal
