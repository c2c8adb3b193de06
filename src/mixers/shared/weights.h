// Reading a mixer's weights out of the map it was handed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mixers/mixer.h"

namespace bifocal {

// Null when there is none.
const Tensor* find_weight(const WeightMap& weights, std::string_view name);

// A norm weight or other small vector as floats, `offset` added; empty when there is none.
std::vector<float> float_weight(const WeightMap& weights, std::string_view name, float offset);

// Checks that every required weight is there with its shape. The model has looked already, so a
// difference is a bug of ours: aborts.
void check_weights(const std::vector<WeightSpec>& specs, const WeightMap& weights);

// Everything dequantised, for references.
struct ReferenceWeight {
    std::vector<int64_t> shape;
    std::vector<double> values;
    bool is_quantised = false;  // the fast path rounds its input to int8 blocks
};
using ReferenceWeights = std::map<std::string, ReferenceWeight, std::less<>>;
ReferenceWeights reference_weights(const WeightMap& weights);

}  // namespace bifocal
