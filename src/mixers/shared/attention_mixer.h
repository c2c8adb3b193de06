// AttentionMixer: the sublayer that softmax mixers share: pre-norm, q/k/v projections, q/k norms,
// RoPE, attention over a KvRing, output projection, residual. A kind of attention is an
// AttentionConfig.
#pragma once

#include <optional>
#include <vector>

#include "mixers/mixer.h"
#include "mixers/shared/attention_reference.h"
#include "mixers/shared/ring_attention.h"
#include "ops/linear.h"

namespace bifocal {

struct AttentionConfig {
    MixerSpec spec;                 // every option explicit
    std::optional<RingPlan> ring;   // none: as many slots as the session's capacity
    bool has_learned_sink = false;  // logits from weight self_attn.sinks
    bool sinks_at_cache_positions = false;
};

class AttentionMixer final : public Mixer {
  public:
    AttentionMixer(AttentionConfig config, LayerContext context);

    const MixerSpec& spec() const override { return config_.spec; }
    MixerTraits traits() const override { return {.same_bits_for_any_chunking = true}; }
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

    std::vector<std::string> describe() const override;
    int64_t weight_bytes() const override;

  private:
    RingPlan ring_plan(const StateLayout& layout) const;
    bool has_sink_query() const;
    void find_angles(const RingPlan& ring, int64_t pos, std::span<float> angles) const;
    void prepare_heads(float* q, float* sink_q, float* k, int64_t begin, int64_t end,
                       std::span<const float> angles) const;
    DenseAttention dense(const WeightMap& weights, const StateOptions& options) const;
    struct Call;
    void decode(const Call& call, std::span<float> angles, Exec& exec) const;
    void prefill(const Call& call, Exec& exec) const;

    AttentionConfig config_;
    LayerContext context_;
    std::optional<ops::RopeTable> rope_;
    std::vector<float> norm_, q_norm_, k_norm_, post_norm_;  // [M], [D], [D], [M]; empty: none
    std::vector<float> sink_logits_;                         // [H]
    ops::Linear q_, k_, v_, out_;  // [H·D, M], [G·D, M], [G·D, M], [M, H·D]
};

// Options `sink` and `sink_logits`, which all kinds have.
class OptionReader;
void read_learned_sink(OptionReader& options, AttentionConfig& config);

// A factory's last step.
Result<std::unique_ptr<Mixer>> make_attention(AttentionConfig config, const LayerContext& context);

}  // namespace bifocal
