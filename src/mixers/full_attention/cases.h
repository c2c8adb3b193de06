// Sizes at which the contract suite judges full attention.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> full_attention_cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, auto change) {
        ContractCase c{
            .name = std::move(name), .spec = {"full_attention"}, .context = small_layer()};
        change(c);
        cases.push_back(std::move(c));
    };
    add("gqa", [](ContractCase&) {});
    add("bf16_kv", [](ContractCase& c) {
        c.options.kv_dtype = DType::bf16;
        c.options.capacity = 401;
        c.runs_long = true;
    });
    add("qk_norm_partial_rope", [](ContractCase& c) {
        c.context.qk_norm = true;
        c.context.norm_offset = 1;
        c.context.rope->rotary_dim = 4;
        c.context.rope->style = ops::RopeStyle::interleaved;
        c.options.capacity = 59;
    });
    add("biases_post_norm", [](ContractCase& c) {
        c.context.qkv_bias = c.context.out_bias = c.context.post_norm = true;
        c.n_tokens = 47;
        c.options.capacity = 64;
    });
    add("carries_its_normed_input", [](ContractCase& c) {
        c.context.residual = ops::NormedResidual{1.5f, 0.4f};
        c.n_tokens = 41;
    });
    add("no_positions_wide_heads", [](ContractCase& c) {
        c.context.rope.reset();
        c.context.head_dim = 33;
        c.context.n_heads = c.context.n_kv_heads = 3;
        c.options.kv_dtype = DType::bf16;
    });
    add("learned_sink", [](ContractCase& c) { c.spec.options["sink"] = "learned"; });
    add("output_gate", [](ContractCase& c) {
        c.context.output_gate = c.context.qk_norm = c.context.qkv_bias = true;
        c.context.norm_offset = 1;
        c.context.rope->rotary_dim = 4;
    });
    add("output_gate_q8_0_fast", [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.context.output_gate = true;
        c.weight_dtype = DType::q8_0;
    });
    add("latent", [](ContractCase& c) { c.context = latent_layer(); });
    add("latent_bf16_learned_sink", [](ContractCase& c) {
        c.context = latent_layer();
        c.context.latent->rank = 48;  // whole panels
        c.context.norm_offset = 1;
        c.context.out_bias = true;
        c.spec.options["sink"] = "learned";
        c.options.kv_dtype = DType::bf16;
        c.runs_long = true;
        c.options.capacity = 210;
    });
    add("q8_0_fast", [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
        c.options.kv_dtype = DType::bf16;
    });
    add("q4_1_exact", [](ContractCase& c) {
        c.context = quantised_layer(Precision::exact);
        c.weight_dtype = DType::q4_1;
        c.n_tokens = 100;
    });
    return cases;
}

}  // namespace bifocal
