// Sizes and settings at which the contract suite judges the Bifocal layer.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> bifocal_cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, std::string_view far, int64_t window, auto change) {
        ContractCase c{.name = std::move(name),
                       .spec = {"bifocal", {{"window", window}, {"far", std::string(far)}}},
                       .context = small_layer()};
        c.n_tokens = 83;
        c.chunks = {1, 7, 12, 64, window, window + 1};
        c.remembers = 6;
        change(c);
        const int64_t sinks = c.spec.options.value("sink_tokens", int64_t{0});
        c.tokens_visible = [=](int64_t pos) { return std::min(pos, sinks + window - 1); };
        cases.push_back(std::move(c));
    };
    add("mlstm_kv", "mlstm", 9, [](ContractCase& c) {
        c.spec.options["sink"] = "learned";
        c.runs_long = true;
    });
    add("mlstm_q_bf16", "mlstm", 17, [](ContractCase& c) {
        c.spec.options["state_heads"] = "q";
        c.options.kv_dtype = DType::bf16;
        c.context.qk_norm = true;
        c.context.norm_offset = 1;
    });
    // The hybrid of the paper: pinned sink tokens, a state for each query head.
    add("paper_hybrid", "mlstm", 13, [](ContractCase& c) {
        c.spec.options["sink_tokens"] = 4;
        c.spec.options["state_heads"] = "q";
        c.context.qkv_bias = c.context.post_norm = true;
    });
    add("liger", "liger", 11, [](ContractCase& c) {
        c.spec.options["mix"] = "half";
        c.runs_long = true;
    });
    add("gdn", "gdn", 12, [](ContractCase&) {});
    add("kda", "kda", 10, [](ContractCase&) {});
    add("gla", "gla", 14, [](ContractCase&) {});
    add("lightning", "lightning", 8, [](ContractCase&) {});
    add("linear_attention", "linear_attention", 15, [](ContractCase&) {});
    add("mamba2", "mamba2", 16, [](ContractCase&) {});
    add("dijiang", "dijiang", 6, [](ContractCase&) {});
    add("output_gate", "mlstm", 19, [](ContractCase& c) {
        c.spec.options["state_heads"] = "q";
        c.context.output_gate = c.context.qk_norm = true;
        c.context.norm_offset = 1;
    });
    add("output_gate_gdn", "gdn", 7, [](ContractCase& c) { c.context.output_gate = true; });
    add("mlstm_q8_0_fast", "mlstm", 20, [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
        c.options.kv_dtype = DType::bf16;
    });
    return cases;
}

}  // namespace bifocal
