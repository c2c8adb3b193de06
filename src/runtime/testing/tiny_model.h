// A whole model from a seed: 2 layers, width 32, no files. For tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace bifocal::testing {

inline constexpr int64_t kTinyVocab = 48;

struct TinyModel {
    Decoder decoder;
    uint64_t identity;
};

// `attention`: a SPEC for every layer.
TinyModel tiny_model(const std::string& attention, uint64_t seed = 1,
                     Precision precision = Precision::fast);

std::vector<int32_t> tiny_tokens(int64_t n, uint64_t seed = 3);

}  // namespace bifocal::testing
