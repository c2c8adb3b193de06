// MixerSpec: which mixer a layer has, with its options; what --attention, @layout.json and the
// `token_mixers` block of config.json all parse into. LayerContext: what the model tells a mixer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "ops/exec.h"
#include "ops/residual.h"
#include "ops/rope.h"

namespace bifocal {

struct MixerSpec {
    std::string kind;                                   // "sliding_window"
    nlohmann::json options = nlohmann::json::object();  // {"window": 508, "sink_tokens": 4}

    // "sliding_window:window=508,sink_tokens=4"; the inverse of parse_mixer_spec.
    std::string to_string() const;
};

// "KIND[:key=value,...]". Values read as JSON when they are JSON, else as strings. Kinds are
// checked against the registry, options by the mixer itself.
Result<MixerSpec> parse_mixer_spec(std::string_view text);

// "SPEC" for every layer, or "@layout.json" (a list with one entry per layer, or an object with
// "token_mixers", formats as in config.json).
Result<std::vector<MixerSpec>> parse_attention(std::string_view text, int64_t n_layers);

// The same from a layout that is already read; `where` names its source in errors.
Result<std::vector<MixerSpec>> parse_layout(const nlohmann::json& layout, const std::string& where,
                                            int64_t n_layers);

// Keys and values that are made, for all heads, from one short row per token, which is then all
// that a ring has to remember of it (multi-head latent attention): eq. (13)-(16) of
// mixers/sliding_window/README.md.
struct LatentKeys {
    int64_t rank = 0;        // R, of the normed part that values and keys are made from
    int64_t own_dim = 0;     // D - P, elements of a key that its head makes from it
    int64_t shared_dim = 0;  // P, elements after them that all heads share
    int64_t value_dim = 0;   // V
    float norm_eps = 1e-6f;

    int64_t width() const { return rank + shared_dim; }  // of the row
};

// Properties of one layer that do not depend on the mixer chosen for it; plain data.
struct LayerContext {
    int64_t layer = 0;
    int64_t n_layers = 0;    // of the model
    int64_t d_model = 0;     // M
    int64_t n_heads = 0;     // H
    int64_t n_kv_heads = 0;  // G
    int64_t head_dim = 0;    // D
    float scale = 0;         // on q·k; 1/sqrt(head_dim) unless the checkpoint says otherwise
    float norm_eps = 1e-5f;
    float norm_offset = 0;  // 1 for checkpoints that store w with x̂ (1 + w)
    bool qk_norm = false;   // RMSNorm over each head of q and k, before RoPE
    bool qkv_bias = false;
    bool out_bias = false;
    // q_proj gives [query | gate] for each head: σ(gate) times what the head reads.
    bool output_gate = false;
    bool post_norm = false;                 // norm on the sublayer's result before it is added
    std::optional<LatentKeys> latent = {};  // then n_kv_heads = n_heads
    std::optional<ops::NormedResidual> residual = {};  // none: x += result
    std::optional<ops::RopeSpec> rope;                 // none: no position encoding in this layer
    Precision precision = Precision::fast;
};

}  // namespace bifocal
