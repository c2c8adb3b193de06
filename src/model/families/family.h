// A family of public checkpoints as data: the names it goes by, the defaults its files leave out,
// and which of the known patterns it follows. No maths, and nothing outside this folder asks for a
// family by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "model/families/experts.h"
#include "model/model_spec.h"

namespace bifocal {

// Which layers a family's window applies to, when its files do not list layers.
enum class WindowRule : uint8_t {
    never,         // no window in any of its checkpoints
    every_layer,   // all layers, when a window is set
    upper_layers,  // when switched on: those from max_window_layers up
    nope_layers,   // when switched on: those without position encoding
    pattern,       // all but every n-th
};

// What the layers are that layer_types calls linear_attention.
enum class LinearRule : uint8_t {
    none,
    lightning,
    gdn,  // with sizes of their own, like kda
    kda,
};

// Where biases of q, k and v come from.
enum class BiasRule : uint8_t { never, always, as_configured };

// Linear layers of Qwen3-Next and Qwen3.5 where nothing else is said.
inline constexpr LinearSizes kQwenLinear = {
    .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv_width = 4};
// Those of Kimi-Linear.
inline constexpr LinearSizes kKimiLinear = {
    .key_heads = 32, .value_heads = 32, .key_dim = 128, .value_dim = 128, .conv_width = 4};

struct Family {
    std::string_view name = {};
    std::vector<std::string_view> architectures = {};  // of config.json
    std::vector<std::string_view> model_types = {};
    std::string_view gguf_architecture = {};  // general.architecture
    bool gguf_paired_qk = false;              // see unpaired_rows()

    // What files may leave out; 0: they may not.
    double norm_eps = 1e-6;
    double rope_theta = 10000.0;
    double rope_theta_window = 0;  // of windowed layers, when it differs
    bool tied = false;
    int64_t n_heads = 0, n_kv_heads = 0, head_dim = 0, vocab_size = 0, context_length = 0;
    int64_t attention_scalar = 0;  // scale = scalar^-1/2; 0: the head size
    // GGUF files of this depth mean the scale (M / heads)^-1/2 and have no key for it.
    int64_t gguf_layers_scaled_by_width = 0;
    int64_t window = 0;
    std::string_view activation = "silu";
    double partial_rotary = 1;  // share of a head that is rotated
    LinearSizes linear = {};

    WindowRule window_rule = WindowRule::never;
    int64_t window_pattern = 0;    // every n-th layer is full
    int64_t no_rope_interval = 0;  // every n-th layer is without position encoding
    bool latent_keys = false;      // in every softmax layer
    LinearRule linear_rule = LinearRule::none;
    BiasRule qkv_bias = BiasRule::never;
    BiasRule out_bias = BiasRule::never;
    bool qk_norm = false;
    bool post_norms = false;        // norms on what mixer and feed-forward give
    float norm_offset = 0;          // of config.json folders; GGUF converters add it to the weights
    bool scaled_embedding = false;  // by sqrt(M)
    bool learned_sinks = false;     // in every softmax layer
    bool gguf_yarn_truncates = true;  // no key says so
    bool normed_residual = false;     // ops/residual.h, with factors in config.json
    const ExpertFamily* experts = nullptr;
    // Tensors of a layer that only repeat what config.json says.
    std::vector<std::string_view> derived_tensors = {};
    int64_t full_attention_interval = 0;  // every n-th layer is softmax, the others linear; 0: all
    bool output_gate = false;             // unless a config says no
    bool gguf_tiles_values = false;       // see LinearSizes
    bool gguf_has_sections = false;       // rope.dimension_sections must be there
    // Parts of a checkpoint that are not the text model: vision, prediction of further tokens.
    std::vector<std::string_view> skipped = {};  // prefixes of Hugging Face names
};

std::span<const Family> families();
// By `architectures` first, then `model_type`; an error that lists the known ones.
Result<const Family*> family_of_hf(const std::vector<std::string>& architectures,
                                   const std::string& model_type, const std::string& where);
Result<const Family*> family_of_gguf(const std::string& architecture, const std::string& where);

}  // namespace bifocal
