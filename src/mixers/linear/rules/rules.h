// The systems of the linear family by name. A rule is one function that reads its options and
// fills in a LinearConfig for the layer; the one list of them is in rules.cpp.
#pragma once

#include <span>
#include <string_view>

#include "mixers/linear/config.h"
#include "mixers/shared/options.h"

namespace bifocal::linear {

struct Rule {
    std::string_view name;
    std::string_view what;  // one line for lists
    void (*fill)(LinearConfig& config, const LayerContext& layer, OptionReader& options);
};

std::span<const Rule> rules();
const Rule* find_rule(std::string_view name);  // null: there is none

// The option that names a rule, and then the rule's own.
void read_rule(OptionReader& options, std::string_view option, LinearConfig& config,
               const LayerContext& layer);
// A layer's config from a spec of kind `linear`: option `rule` and the rule's own.
Result<LinearConfig> read_config(const MixerSpec& spec, const LayerContext& layer);
// Whether heads and sizes go together.
Status check_fit(const LinearConfig& config);

// The layer's own heads: its q, k and v, `head_dim` wide, one state for each query head, or for
// each kv head with the option state_heads=kv.
void fill_retrofit(LinearConfig& config, const LayerContext& layer, OptionReader& options,
                   std::string_view state_heads);
// Norm and gate of the output; none beside a window.
void fill_output(LinearConfig& config, OutputNorm norm, std::string norm_name, OutputGate gate,
                 Projection gate_projection);

void fill_linear_attention(LinearConfig&, const LayerContext&, OptionReader&);
void fill_lightning(LinearConfig&, const LayerContext&, OptionReader&);
void fill_mlstm(LinearConfig&, const LayerContext&, OptionReader&);
void fill_gla(LinearConfig&, const LayerContext&, OptionReader&);
void fill_mamba2(LinearConfig&, const LayerContext&, OptionReader&);
void fill_gdn(LinearConfig&, const LayerContext&, OptionReader&);
void fill_kda(LinearConfig&, const LayerContext&, OptionReader&);
void fill_rwkv6(LinearConfig&, const LayerContext&, OptionReader&);
void fill_rad_rwkv6(LinearConfig&, const LayerContext&, OptionReader&);
void fill_liger(LinearConfig&, const LayerContext&, OptionReader&);
void fill_dijiang(LinearConfig&, const LayerContext&, OptionReader&);

}  // namespace bifocal::linear
