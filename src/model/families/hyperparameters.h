// A checkpoint's numbers, whichever file they came from, with the family's defaults filled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "model/families/family.h"
#include "model/model_spec.h"
#include "model/weight_table.h"
#include "ops/rope.h"

namespace bifocal {

inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any width, head count or vocabulary

struct Hyperparameters {
    std::string where;  // the file, for errors
    int64_t vocab_size = 0, d_model = 0, n_layers = 0, context_length = 0;
    std::vector<int64_t> d_ff, n_heads, n_kv_heads;  // [n_layers]
    int64_t head_dim = 0;                            // 0: d_model / n_heads
    double norm_eps = 0;
    double norm_offset = 0;
    double attention_scale = 0;  // 0: head_dim^-1/2
    std::string activation;
    bool tied = false, qkv_bias = false, out_bias = false, mlp_bias = false;
    bool output_gate = false;
    int64_t window = 0;             // 0: none
    std::vector<bool> is_windowed;  // [n_layers]
    std::vector<bool> has_rope;     // [n_layers]
    std::vector<bool> is_linear;    // [n_layers]
    LinearSizes linear;
    std::optional<LatentKeys> latent;  // of softmax layers; then head_dim is theirs
    ops::RopeSpec rope, window_rope;   // of full and of windowed layers; rotary_dim 0: whole heads
    MixerSpec linear_mixer;            // of linear layers, if not the one of `linear`
    LayerExperts experts;              // [n_layers], or empty: none
    // Where results do not just add up: of softmax and linear layers, and of feed-forwards.
    std::optional<ops::NormedResidual> softmax_residual, linear_residual, ffn_residual;
    std::vector<int32_t> stop_tokens;
};

// Checks what the numbers must satisfy, and lays out the layers.
Result<ModelSpec> make_model_spec(const Family& family, const Hyperparameters& numbers);

// Layers of the family's pattern. `upper_from`: the first windowed layer of
// WindowRule::upper_layers.
std::vector<bool> windowed_layers(const Family& family, const Hyperparameters& numbers,
                                  int64_t pattern, int64_t upper_from);
std::vector<bool> rope_layers(int64_t n_layers, int64_t no_rope_interval);

}  // namespace bifocal
