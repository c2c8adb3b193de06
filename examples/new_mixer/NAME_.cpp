// Options, weights and state of NAME_.
#include "mixers/NAME_/NAME_.h"

#include <cmath>
#include <cstring>

#include "mixers/shared/options.h"

namespace bifocal {

Result<std::unique_ptr<Mixer>> make_NAME_(const MixerSpec& spec, const LayerContext& context) {
    Name_Config config;
    OptionReader options(spec);
    const int64_t half_life = options.integer("half_life", 16, 1, 1'000'000);
    config.decay = std::exp2(-1.0 / static_cast<double>(half_life));
    BIFOCAL_TRY(config.spec, options.finish());
    if (context.post_norm) return Error{.what = "norms on the result are not supported"};
    return std::unique_ptr<Mixer>(std::make_unique<Name_Mixer>(std::move(config), context));
}

Name_Mixer::Name_Mixer(Name_Config config, LayerContext context)
    : config_(std::move(config)), context_(std::move(context)) {}

std::vector<WeightSpec> Name_Mixer::weights() const {
    const LayerContext& c = context_;
    const int64_t M = c.d_model, HD = c.n_heads * c.head_dim, GD = c.n_kv_heads * c.head_dim;
    std::vector<WeightSpec> list{{"input_layernorm.weight", {M}},
                                 {"self_attn.v_proj.weight", {GD, M}},
                                 {"self_attn.o_proj.weight", {M, HD}}};
    if (c.qkv_bias) list.push_back({"self_attn.v_proj.bias", {GD}});
    if (c.out_bias) list.push_back({"self_attn.o_proj.bias", {M}});
    return list;
}

Status Name_Mixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    const auto linear = [&](const std::string& name) {
        return ops::Linear::make(name, *find_weight(weights, name + ".weight"),
                                 find_weight(weights, name + ".bias"), context_.precision);
    };
    BIFOCAL_TRY(v_, linear("self_attn.v_proj"));
    BIFOCAL_TRY(out_, linear("self_attn.o_proj"));
    norm_ = float_weight(weights, "input_layernorm.weight", context_.norm_offset);
    return {};
}

StateLayout Name_Mixer::state_layout(const StateOptions&) const {
    StateLayout layout;
    layout.add("mean", DType::f32, {context_.n_kv_heads, context_.head_dim});
    return layout;
}

void Name_Mixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
}

ReferenceForward Name_Mixer::reference(const WeightMap& weights, const StateOptions&,
                                       Real real) const {
    const auto run = real == Real::f64 ? NAME__reference<double> : NAME__reference<float>;
    return [run, config = config_, context = context_, known = reference_weights(weights)](
               View<double, 2> x) { run(config, context, known, x); };
}

std::vector<std::string> Name_Mixer::describe() const {
    return {fmt::format("{}: {}", v_.name(), v_.kernel()),
            fmt::format("{}: {}", out_.name(), out_.kernel()), "decayed mean: f32, token by token"};
}

}  // namespace bifocal
