// LinearMixer: the sublayer that all systems of the linear family share: pre-norm, projections,
// the steps of config.h around the recurrence, output projection, residual. A system is a
// LinearConfig.
#pragma once

#include <vector>

#include "mixers/linear/branch.h"
#include "mixers/mixer.h"
#include "mixers/shared/sublayer.h"

namespace bifocal::linear {

class LinearMixer final : public Mixer {
  public:
    LinearMixer(LinearConfig config, LayerContext context);

    const MixerSpec& spec() const override { return branch_.config().spec; }
    MixerTraits traits() const override;
    std::vector<WeightSpec> weights() const override;
    Status bind(const WeightMap& weights) override;

    StateLayout state_layout(const StateOptions& options) const override;
    void init_state(const StateLayout& layout, std::byte* state) const override;
    // A state that has forgotten cannot go back.
    int64_t rewind_limit(const StateLayout&, int64_t) const override { return 0; }
    // Nothing is held exactly.
    int64_t tokens_visible(const StateLayout&, int64_t) const override { return 0; }

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
    std::vector<const ops::Linear*> linears() const;

    LayerContext context_;
    LinearBranch branch_;
    Sublayer sublayer_;
    ops::Linear q_, k_, v_;
};

}  // namespace bifocal::linear
