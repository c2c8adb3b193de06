// A whole model from a seed: 2 layers, width 32, no files. For tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace bifocal::testing {

inline constexpr int64_t kTinyVocab = 48;
inline constexpr int64_t kTinyLayers = 2;

struct TinyModel {
    Decoder decoder;
    uint64_t identity;
};

// `layout`: a mixer for each layer.
TinyModel tiny_model(const std::vector<MixerSpec>& layout, uint64_t seed = 1,
                     Precision precision = Precision::fast);
// `attention`: a SPEC for every layer.
TinyModel tiny_model(const std::string& attention, uint64_t seed = 1,
                     Precision precision = Precision::fast);

// What the model tells its layers.
LayerContext tiny_layer(int64_t layer = 0, Precision precision = Precision::fast);

std::vector<int32_t> tiny_tokens(int64_t n, uint64_t seed = 3);

}  // namespace bifocal::testing
