// AttentionCore: softmax attention over a KvRing, between the projected q, k, v of a layer and its
// output projection: q/k norms, RoPE, the ring, sinks. AttentionMixer is a sublayer around one; the
// Bifocal layer runs one beside a linear state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mixers/mixer.h"
#include "mixers/shared/attention_reference.h"
#include "mixers/shared/ring_attention.h"

namespace bifocal {

struct AttentionConfig {
    MixerSpec spec;                 // every option explicit
    std::optional<RingPlan> ring;   // none: as many slots as the session's capacity
    bool has_learned_sink = false;  // logits from weight self_attn.sinks
    bool sinks_at_cache_positions = false;
};

class AttentionCore {
  public:
    AttentionCore(AttentionConfig config, LayerContext context);

    const AttentionConfig& config() const { return config_; }
    // Of q/k norms and sinks; the projections are the sublayer's.
    void add_weights(std::vector<WeightSpec>& list) const;
    Status bind(const WeightMap& weights);
    void add_state(StateLayout& layout, const StateOptions& options) const;
    int64_t rewind_limit(const StateLayout& layout, int64_t pos) const;
    int64_t tokens_visible(const StateLayout& layout, int64_t pos) const;

    // Scratch of run().
    size_t workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens) const;
    // q: [B * T, H·D], becomes what the heads give; k, v: [B * T, G·D]; all as projected. k is
    // overwritten by the normed and rotated keys. Of a layer with latent keys D is R + P, G is 1,
    // there is no v, and a head gives R elements. sums, if given: [B * T, H], each head's sum of
    // e^(score - its largest score).
    void run(const Chunk& chunk, View<float, 2> q, View<float, 2> k, View<float, 2> v, Exec& exec,
             View<float, 2> sums = {}) const;
    // Before run(): row t of k, v [B * T, G·D] gets what the ring holds of the token that leaves
    // the window when token t of the chunk comes in; rows of tokens that it does not hold stay as
    // they are. REQUIRES: a window without sink tokens or slack.
    void copy_leaving(const Chunk& chunk, View<float, 2> k, View<float, 2> v) const;

    DenseAttention dense(const WeightMap& weights, const StateOptions& options) const;
    std::string describe() const;

  private:
    RingPlan ring_plan(const StateLayout& layout) const;
    DType kv_dtype(const StateLayout& layout) const;
    KvSlots slots(const StateLayout& layout, std::byte* state, int64_t kv_head) const;
    size_t stage_bytes(const StateLayout& layout, int64_t n_tokens) const;
    bool has_sink_query() const;
    void find_angles(const RingPlan& ring, int64_t pos, std::span<float> angles) const;
    void prepare_heads(float* q, float* sink_q, float* k, int64_t begin, int64_t end,
                       std::span<const float> angles) const;
    struct Call;
    void decode(const Call& call, std::span<float> angles, Exec& exec) const;
    void prefill(const Call& call, Exec& exec) const;

    AttentionConfig config_;
    LayerContext layer_;    // as given
    LayerContext context_;  // with heads as the ring has them
    std::optional<ops::RopeTable> rope_;
    std::vector<float> q_norm_, k_norm_;  // [D]; empty: none
    std::vector<float> sink_logits_;      // [H]
};

// Options `window`, `sink_tokens`, `sink_positions` and `rewind` of a sliding window.
class OptionReader;
void read_window(OptionReader& options, AttentionConfig& config);
// Options `sink` and `sink_logits`, which all kinds have.
void read_learned_sink(OptionReader& options, AttentionConfig& config);
// Whether the layer's heads fit.
Status check_attention(const LayerContext& context);
// Whether the layer has keys and values of its own for each kv head, which others can share.
Status check_own_keys(const LayerContext& context);

}  // namespace bifocal
