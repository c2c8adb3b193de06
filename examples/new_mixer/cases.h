// Sizes at which the contract suite judges NAME_.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> NAME__cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, auto change) {
        ContractCase c{.name = std::move(name), .spec = {"NAME_"}, .context = small_layer()};
        change(c);
        cases.push_back(std::move(c));
    };
    add("half_life_16", [](ContractCase& c) { c.runs_long = true; });
    add("half_life_3_biases", [](ContractCase& c) {
        c.spec.options["half_life"] = 3;
        c.context.qkv_bias = c.context.out_bias = true;
        c.context.norm_offset = 1;
        c.n_tokens = 40;
    });
    add("q8_0_fast", [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
    });
    return cases;
}

}  // namespace bifocal
