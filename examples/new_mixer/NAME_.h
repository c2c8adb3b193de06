// NAME_: every head reads a decayed mean of the values of all tokens so far. Equations in
// README.md. Start reading at forward() in cpu.cpp; what it means is in ref.cpp.
#pragma once

#include "mixers/mixer.h"
#include "mixers/shared/weights.h"
#include "ops/linear.h"

namespace bifocal {

struct Name_Config {
    MixerSpec spec;    // every option explicit
    double decay = 0;  // what is left of a token after one step, in (0, 1)
};

// Options: half_life = 16, in tokens.
Result<std::unique_ptr<Mixer>> make_NAME_(const MixerSpec& spec, const LayerContext& context);

// The definition, ref.cpp. Double is the truth, float the plain path.
template <class Real>
void NAME__reference(const Name_Config& config, const LayerContext& context,
                     const ReferenceWeights& weights, View<double, 2> x);

class Name_Mixer final : public Mixer {
  public:
    Name_Mixer(Name_Config config, LayerContext context);

    const MixerSpec& spec() const override { return config_.spec; }
    MixerTraits traits() const override { return {.same_bits_for_any_chunking = true}; }
    std::vector<WeightSpec> weights() const override;
    Status bind(const WeightMap& weights) override;

    StateLayout state_layout(const StateOptions& options) const override;
    void init_state(const StateLayout& layout, std::byte* state) const override;
    // A mean does not remember what went into it.
    int64_t rewind_limit(const StateLayout&, int64_t) const override { return 0; }
    int64_t tokens_visible(const StateLayout&, int64_t pos) const override { return pos; }

    size_t workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                           int n_threads) const override;
    void forward(const Chunk& chunk, Exec& exec) const override;

    ReferenceForward reference(const WeightMap& weights, const StateOptions& options,
                               Real real) const override;
    std::vector<std::string> describe() const override;
    int64_t weight_bytes() const override { return v_.weight_bytes() + out_.weight_bytes(); }

  private:
    Name_Config config_;
    LayerContext context_;
    std::vector<float> norm_;  // [M]
    ops::Linear v_, out_;      // [G·D, M], [M, H·D]
};

}  // namespace bifocal
