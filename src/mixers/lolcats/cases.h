// Sizes at which the contract suite judges lolcats: windows shorter and longer than a chunk, states
// that run one by one and in chunks.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> lolcats_cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, int64_t window, auto change) {
        ContractCase c{.name = std::move(name),
                       .spec = {"lolcats", {{"window", window}}},
                       .context = small_layer()};
        c.n_tokens = 3 * window + 50;
        c.chunks = {1, 7, 12, window + 1, 64};
        c.tokens_visible = [=](int64_t pos) { return std::min(pos, window - 1); };
        change(c);
        cases.push_back(std::move(c));
    };
    add("w9", 9, [](ContractCase& c) { c.runs_long = true; });
    add("w1_affine", 1, [](ContractCase& c) { c.spec.options["affine"] = true; });
    add("w21_bf16", 21, [](ContractCase& c) {
        c.options.kv_dtype = DType::bf16;
        c.spec.options["features"] = 7;
        c.context.qk_norm = c.context.qkv_bias = true;
    });
    add("w14_q8_0_fast", 14, [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
    });
    return cases;
}

}  // namespace bifocal
