// The cases of every registered mixer.
#pragma once

#include <gtest/gtest.h>

#include "mixer_cases.h"

namespace bifocal::contract {

inline std::vector<ContractCase> all_cases() {
    std::vector<ContractCase> all;
    const auto add = [&](std::vector<ContractCase> cases) {
        all.insert(all.end(), cases.begin(), cases.end());
    };
#define BIFOCAL_MIXER(name) add(name##_cases());
    BIFOCAL_MIXER_LIST
#undef BIFOCAL_MIXER
    return all;
}

inline std::string case_name(const ::testing::TestParamInfo<ContractCase>& info) {
    return info.param.spec.kind + "_" + info.param.name;
}

}  // namespace bifocal::contract
