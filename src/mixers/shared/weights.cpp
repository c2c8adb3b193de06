#include "mixers/shared/weights.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/dequant.h"

namespace bifocal {
namespace {

std::vector<float> floats_of(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.elems()));
    if (tensor.shape.size() < 2) {
        dequantise_row(tensor.dtype, tensor.bytes.data(), values);
        return values;
    }
    const int64_t rows = tensor.shape[0];
    const auto width = static_cast<size_t>(tensor.elems() / rows);
    for (int64_t r = 0; r < rows; ++r) {
        dequantise_row(tensor.dtype, tensor.bytes.data() + r * tensor.row_bytes(),
                       std::span(values).subspan(static_cast<size_t>(r) * width, width));
    }
    return values;
}

}  // namespace

const Tensor* find_weight(const WeightMap& weights, std::string_view name) {
    const auto it = weights.find(name);
    return it == weights.end() ? nullptr : &it->second;
}

std::vector<float> float_weight(const WeightMap& weights, std::string_view name, float offset) {
    const Tensor* tensor = find_weight(weights, name);
    if (tensor == nullptr) return {};
    std::vector<float> values = floats_of(*tensor);
    for (float& value : values) value += offset;
    return values;
}

void check_weights(const std::vector<WeightSpec>& specs, const WeightMap& weights) {
    for (const WeightSpec& spec : specs) {
        const Tensor* tensor = find_weight(weights, spec.name);
        BIFOCAL_CHECK(tensor != nullptr || !spec.required, "weight '{}' is missing", spec.name);
        if (tensor == nullptr) continue;
        BIFOCAL_CHECK(tensor->shape == spec.shape,
                      "weight '{}' is {}-dimensional or of another size", spec.name,
                      tensor->shape.size());
    }
}

ReferenceWeights reference_weights(const WeightMap& weights) {
    ReferenceWeights all;
    for (const auto& [name, tensor] : weights) {
        std::vector<double> values(static_cast<size_t>(tensor.elems()));
        if (tensor.dtype == DType::f64) {  // to the last digit, for finite differences
            std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
        } else {
            std::ranges::copy(floats_of(tensor), values.begin());
        }
        all[name] = {tensor.shape, std::move(values), is_quantised(tensor.dtype)};
    }
    return all;
}

}  // namespace bifocal
