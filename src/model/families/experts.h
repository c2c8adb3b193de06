// From a checkpoint's own description to the experts of its layers.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/json/json.h"
#include "formats/gguf/hparams.h"
#include "model/model_spec.h"

namespace bifocal {

// What config.json says of experts beside their number, how many are used and their width.
enum class ExpertKeys : uint8_t {
    none,  // all layers have them, weights sum to one, no expert is shared
    qwen,  // which layers have them, whether weights sum to one, how wide a shared one is
    kimi,  // how they are scored, too; all of it in words of its own
};

// What families with experts differ in.
struct ExpertFamily {
    ExpertNames names;
    bool has_biases = false;
    std::optional<ops::Activation> activation = {};    // none: the model's
    std::string_view width_key = "intermediate_size";  // of one expert, in config.json
    ExpertKeys keys = ExpertKeys::none;
};

extern const ExpertFamily kGptOssExperts;
extern const ExpertFamily kKimiExperts;     // Kimi-Linear
extern const ExpertFamily kMixtralExperts;  // Mixtral's names, which MiniMax has too
extern const ExpertFamily kQwenExperts;     // Qwen3-Next, also Qwen2 and Qwen3 with experts

using LayerExperts = std::vector<std::optional<ExpertsSpec>>;  // [n_layers] none: dense

Result<LayerExperts> experts_from_hf(const ExpertFamily& family, const json::Fields& config,
                                     int64_t n_layers);
Result<LayerExperts> experts_from_gguf(const ExpertFamily& family, const gguf::Metadata& metadata,
                                       const gguf::Hparams& stated);

}  // namespace bifocal
