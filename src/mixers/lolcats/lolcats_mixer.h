// LolcatsMixer: an AttentionCore over the window; tokens that leave it go through a feature map
// into a linear state. Numerators and denominators of both are added before dividing.
#pragma once

#include <optional>
#include <vector>

#include "core/huge_memory.h"
#include "mixers/linear/config.h"
#include "mixers/shared/attention_core.h"
#include "mixers/shared/qkv_projection.h"
#include "mixers/shared/sublayer.h"

namespace bifocal {

class LolcatsMixer final : public Mixer {
  public:
    LolcatsMixer(AttentionConfig near, int64_t n_features, bool is_affine, LayerContext context);

    const MixerSpec& spec() const override { return near_.config().spec; }
    MixerTraits traits() const override { return {}; }
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

    std::vector<std::string> describe() const override;
    int64_t weight_bytes() const override;

  private:
    int64_t feature_width() const { return context_.n_heads * map_.key_dim(); }
    struct Rows;
    Rows take_rows(int64_t n_rows, Exec& exec) const;
    size_t row_bytes(int64_t n_rows) const;
    void find_query_features(const Chunk& chunk, const Rows& rows, Exec& exec) const;
    void find_key_features(const Chunk& chunk, const Rows& rows, Exec& exec) const;
    void run_states(const Chunk& chunk, const Rows& rows, Exec& exec) const;
    void mix(const Rows& rows, Exec& exec) const;

    LayerContext context_;
    bool is_affine_;
    linear::LinearConfig map_;  // the feature map and the recurrence, for find_features()
    AttentionCore near_;
    QkvProjection qkv_;
    Sublayer sublayer_;
    std::optional<ops::RopeTable> rope_;
    std::vector<float> q_norm_;        // [D]; empty: none
    HugeVector<float> q_map_, k_map_;  // [H, D, f]
    std::vector<float> window_share_;  // γ, [H]
};

}  // namespace bifocal
