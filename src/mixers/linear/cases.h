// Sizes and settings at which the contract suite judges each rule.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> linear_cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, std::string_view rule, auto change) {
        ContractCase c{.name = std::move(name),
                       .spec = {"linear", {{"rule", std::string(rule)}}},
                       .context = small_layer()};
        c.n_tokens = 83;
        c.chunks = {1, 7, 12, 16, 64, 65};
        c.tokens_visible = [](int64_t) { return int64_t{0}; };
        c.remembers = 6;
        change(c);
        cases.push_back(std::move(c));
    };
    const auto runs_long = [](ContractCase& c) { c.runs_long = true; };
    add("linear_attention", "linear_attention", runs_long);
    add("linear_attention_softmax_kv", "linear_attention", [](ContractCase& c) {
        c.spec.options["feature_map"] = "softmax";
        c.spec.options["state_heads"] = "kv";
        c.context.qk_norm = true;
    });
    add("lightning", "lightning", runs_long);
    add("lightning_minimax", "lightning", [](ContractCase& c) {
        c.spec.options["slopes"] = "minimax";
        c.spec.options["n_layers"] = 9;
    });
    add("lightning_packed", "lightning", [](ContractCase& c) {
        c.spec.options["slopes"] = "minimax";
        c.spec.options["n_layers"] = 9;
        c.spec.options["packed"] = true;
        c.context.residual = ops::NormedResidual{1.5f, 0.4f};
    });
    add("mlstm_exp", "mlstm", runs_long);
    add("mlstm_sigmoid_kv", "mlstm", [](ContractCase& c) {
        c.spec.options["input_gate"] = "sigmoid";
        c.spec.options["state_heads"] = "kv";
        c.context.qkv_bias = c.context.out_bias = true;
    });
    add("mlstm_learned_softmax", "mlstm", [](ContractCase& c) {
        c.spec.options["feature_map"] = "learned_softmax";
        c.spec.options["norm"] = "none";
        c.spec.options["gate"] = "none";
        c.spec.options["rope"] = true;
        c.context.post_norm = true;
    });
    add("gla", "gla", runs_long);
    add("gla_kv", "gla", [](ContractCase& c) {
        c.spec.options["state_heads"] = "kv";
        c.spec.options["gate_rank"] = 3;
    });
    add("mamba2", "mamba2", runs_long);
    add("gdn", "gdn", runs_long);
    add("gdn_retrofit_conv", "gdn", [](ContractCase& c) {
        c.spec.options["conv_width"] = 3;
        c.spec.options["rope"] = true;
        c.spec.options["qk_norm"] = true;
        c.context.qk_norm = true;
    });
    add("gdn_qwen", "gdn", [](ContractCase& c) {
        c.spec.options["form"] = "qwen";
        c.spec.options["key_heads"] = 3;
        c.spec.options["value_heads"] = 6;
        c.spec.options["key_dim"] = 12;
        c.spec.options["value_dim"] = 9;
        c.spec.options["norm_eps"] = 1e-3;  // so that a head that is nearly 0 is not blown up
    });
    add("gdn_qwen_tiled", "gdn", [](ContractCase& c) {
        c.spec.options["form"] = "qwen";
        c.spec.options["key_heads"] = 2;
        c.spec.options["value_heads"] = 6;
        c.spec.options["key_dim"] = 8;
        c.spec.options["value_dim"] = 11;
        c.spec.options["value_order"] = "tiled";
        c.spec.options["norm_eps"] = 1e-3;
    });
    add("gdn_gated_layer", "gdn", [](ContractCase& c) { c.context.output_gate = true; });
    add("kda", "kda", runs_long);
    add("kda_bounded", "kda", [](ContractCase& c) {
        c.spec.options["decay"] = "bounded";
        c.spec.options["conv_width"] = 0;
    });
    add("kda_without_gate_bias", "kda", [](ContractCase& c) {
        c.spec.options["gate_bias"] = false;
        c.spec.options["gate_rank"] = 7;
        c.spec.options["state_heads"] = "kv";
    });
    add("kda_kimi", "kda", [](ContractCase& c) {
        c.spec.options["form"] = "kimi";
        c.spec.options["heads"] = 5;
        c.spec.options["head_dim"] = 9;
        c.runs_long = true;
    });
    add("kda_kimi_short_conv", "kda", [](ContractCase& c) {
        c.spec.options["form"] = "kimi";
        c.spec.options["heads"] = 3;
        c.spec.options["head_dim"] = 16;
        c.spec.options["conv_width"] = 2;
        c.spec.options["norm_eps"] = 1e-3;
    });
    add("rwkv6", "rwkv6", runs_long);
    add("rwkv6_kv", "rwkv6", [](ContractCase& c) {
        c.spec.options["state_heads"] = "kv";
        c.spec.options["shift_rank"] = 3;
        c.context.qkv_bias = true;
    });
    add("rad_rwkv6", "rad_rwkv6", runs_long);
    add("rad_rwkv6_rope", "rad_rwkv6", [](ContractCase& c) {
        c.spec.options["rope"] = true;
        c.spec.options["decay_rank"] = 4;
        c.context.qkv_bias = c.context.post_norm = true;
    });
    add("liger", "liger", runs_long);
    add("dijiang", "dijiang", runs_long);
    add("gdn_q8_0_fast", "gdn", [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
    });
    return cases;
}

}  // namespace bifocal
