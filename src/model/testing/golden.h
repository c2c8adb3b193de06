// Golden logits of tiny checkpoints, written by tools/golden/models.py.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "formats/safetensors/file.h"

namespace bifocal::testing {

inline const std::string kFolder = std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/models/";

struct Golden {
    safetensors::File file;
    std::vector<int32_t> tokens;

    std::vector<float> floats(const std::string& name) const {
        const Tensor tensor = file.tensor(name).value();
        std::vector<float> values(static_cast<size_t>(tensor.elems()));
        std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
        return values;
    }
};

inline Golden golden_of(const std::string& name) {
    Golden golden{safetensors::File::open(kFolder + name + "/golden.safetensors").value(), {}};
    const Tensor tokens = golden.file.tensor("tokens").value();
    golden.tokens.resize(static_cast<size_t>(tokens.elems()));
    std::memcpy(golden.tokens.data(), tokens.bytes.data(), tokens.bytes.size());
    return golden;
}

inline Model load_exact(const std::string& path, ModelOptions options = {}) {
    options.exact = true;
    Result<Model> model = Model::load(path, options);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message());
    return std::move(model).value();
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double largest = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        // A NaN must not pass for small.
        if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
    }
    return largest;
}

}  // namespace bifocal::testing
