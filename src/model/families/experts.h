// From a checkpoint's own description to the experts of its layers.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/json/json.h"
#include "formats/gguf/hparams.h"
#include "model/model_spec.h"

namespace bifocal {

// What families with experts differ in.
struct ExpertFamily {
    ExpertNames names;
    bool has_biases = false;
    std::optional<ops::Activation> activation = {};    // none: the model's
    std::string_view width_key = "intermediate_size";  // of one expert, in config.json
    // Which layers have experts, whether their weights sum to one and how wide a shared one is may
    // be configured; else: all, they do, and there is none.
    bool is_configurable = false;
};

extern const ExpertFamily kGptOssExperts;
extern const ExpertFamily kMixtralExperts;  // Mixtral's names, which MiniMax has too
extern const ExpertFamily kQwenExperts;     // Qwen3-Next, also Qwen2 and Qwen3 with experts

using LayerExperts = std::vector<std::optional<ExpertsSpec>>;  // [n_layers] none: dense

Result<LayerExperts> experts_from_hf(const ExpertFamily& family, const json::Fields& config,
                                     int64_t n_layers);
Result<LayerExperts> experts_from_gguf(const ExpertFamily& family, const gguf::Metadata& metadata,
                                       const gguf::Hparams& stated);

}  // namespace bifocal
