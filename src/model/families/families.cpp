#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/families/family.h"

namespace bifocal {
namespace {

const Family kFamilies[] = {
    {
        .name = "llama",  // also SmolLM, SmolLM2
        .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM"},
        .model_types = {"llama"},
        .gguf_architecture = "llama",
        .gguf_paired_qk = true,
        .norm_eps = 1e-6,
        .window_rule = WindowRule::every_layer,  // in GGUF files of Mistral
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
    },
    {
        .name = "mistral",
        .architectures = {"MistralForCausalLM"},
        .model_types = {"mistral"},
        .window_rule = WindowRule::every_layer,
    },
    {
        .name = "smollm3",
        .architectures = {"SmolLM3ForCausalLM"},
        .model_types = {"smollm3"},
        .gguf_architecture = "smollm3",
        .gguf_paired_qk = true,
        .rope_theta = 2000000.0,
        .tied = true,
        .window_rule = WindowRule::nope_layers,
        .no_rope_interval = 4,
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
    },
    {
        .name = "qwen2",
        .architectures = {"Qwen2ForCausalLM"},
        .model_types = {"qwen2"},
        .gguf_architecture = "qwen2",
        .window_rule = WindowRule::upper_layers,
        .qkv_bias = BiasRule::always,
    },
    {
        .name = "qwen3",
        .architectures = {"Qwen3ForCausalLM"},
        .model_types = {"qwen3"},
        .gguf_architecture = "qwen3",
        .head_dim = 128,
        .window_rule = WindowRule::upper_layers,
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
        .qk_norm = true,
    },
    {
        .name = "qwen3_5",  // the dense text model, also inside the one that sees images
        .architectures = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"},
        .model_types = {"qwen3_5_text", "qwen3_5"},
        .gguf_architecture = "qwen35",
        .head_dim = 256,
        .partial_rotary = 0.25,
        .linear = kQwenLinear,
        .linear_rule = LinearRule::gdn,
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
        .qk_norm = true,
        .norm_offset = 1,
        .full_attention_interval = 4,
        .output_gate = true,
        .gguf_tiles_values = true,
        .gguf_has_sections = true,
        .skipped = {"mtp.", "model.visual."},
    },
    {
        .name = "qwen3_next",
        .architectures = {"Qwen3NextForCausalLM"},
        .model_types = {"qwen3_next"},
        .gguf_architecture = "qwen3next",
        .head_dim = 256,
        .partial_rotary = 0.25,
        .linear = kQwenLinear,
        .linear_rule = LinearRule::gdn,
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
        .qk_norm = true,
        .norm_offset = 1,
        .experts = &kQwenExperts,
        .full_attention_interval = 4,
        .output_gate = true,
        .skipped = {"mtp."},
    },
    {
        .name = "phi3",  // Phi-3, Phi-3.5, Phi-4, Phi-4-mini
        .architectures = {"Phi3ForCausalLM"},
        .model_types = {"phi3"},
        .gguf_architecture = "phi3",
        .norm_eps = 1e-5,
        .window_rule = WindowRule::every_layer,
    },
    {
        .name = "gemma3",
        .architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
        .model_types = {"gemma3_text", "gemma3"},
        .gguf_architecture = "gemma3",
        .rope_theta = 1000000.0,
        .rope_theta_window = 10000.0,
        .tied = true,
        .n_heads = 8,
        .n_kv_heads = 4,
        .head_dim = 256,
        .vocab_size = 262208,
        .context_length = 131072,
        .attention_scalar = 256,
        .gguf_layers_scaled_by_width = 62,  // the 27B model
        .window = 4096,
        .activation = "gelu_pytorch_tanh",
        .window_rule = WindowRule::pattern,
        .window_pattern = 6,
        .qkv_bias = BiasRule::as_configured,
        .out_bias = BiasRule::as_configured,
        .qk_norm = true,
        .post_norms = true,
        .norm_offset = 1,
        .scaled_embedding = true,
    },
    {
        .name = "gpt_oss",
        .architectures = {"GptOssForCausalLM"},
        .model_types = {"gpt_oss"},
        .gguf_architecture = "gpt-oss",
        .norm_eps = 1e-5,
        .rope_theta = 150000.0,
        .head_dim = 64,
        .window = 128,
        .window_rule = WindowRule::pattern,
        .window_pattern = 2,
        .qkv_bias = BiasRule::always,
        .out_bias = BiasRule::always,
        .learned_sinks = true,
        .gguf_yarn_truncates = false,
        .experts = &kGptOssExperts,
    },
    {
        .name = "kimi_linear",
        .architectures = {"KimiLinearForCausalLM"},
        .model_types = {"kimi_linear"},
        .norm_eps = 1e-5,
        .linear = kKimiLinear,
        .no_rope_interval = 1,
        .latent_keys = true,
        .linear_rule = LinearRule::kda,
        .experts = &kKimiExperts,
    },
    {
        .name = "minimax",
        .architectures = {"MiniMaxForCausalLM"},
        .model_types = {"minimax"},
        .norm_eps = 1e-5,
        .rope_theta = 1000000.0,
        .window_rule = WindowRule::every_layer,
        .linear_rule = LinearRule::lightning,
        .normed_residual = true,
        .experts = &kMixtralExperts,
        .derived_tensors = {"self_attn.slope_rate", "self_attn.query_decay", "self_attn.key_decay",
                            "self_attn.diagonal_decay"},
    },
};

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::span<const Family> families() {
    return kFamilies;
}

Result<const Family*> family_of_hf(const std::vector<std::string>& architectures,
                                   const std::string& model_type, const std::string& where) {
    for (const Family& family : kFamilies)
        for (const std::string& architecture : architectures)
            if (contains(family.architectures, architecture)) return &family;
    if (architectures.empty())
        for (const Family& family : kFamilies)
            if (contains(family.model_types, model_type)) return &family;
    std::vector<std::string_view> known;
    for (const Family& family : kFamilies) known.push_back(family.architectures[0]);
    std::string got = architectures.empty() ? model_type : architectures[0];
    return Error{.what = "unsupported architecture",
                 .where = where + ", key 'architectures'",
                 .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                 .got = got.empty() ? "none" : std::move(got)};
}

Result<const Family*> family_of_gguf(const std::string& architecture, const std::string& where) {
    std::vector<std::string_view> known;
    for (const Family& family : kFamilies) {
        if (family.gguf_architecture.empty()) continue;
        if (family.gguf_architecture == architecture) return &family;
        known.push_back(family.gguf_architecture);
    }
    return Error{.what = "unsupported architecture",
                 .where = where + ", key 'general.architecture'",
                 .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                 .got = architecture};
}

}  // namespace bifocal
