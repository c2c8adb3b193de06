#include "core/tensor.h"

#include <cstring>

#include "core/buffer.h"
#include "core/check.h"

namespace bifocal {

int64_t Tensor::elems() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
}

int64_t Tensor::row_bytes() const {
    BIFOCAL_CHECK(!shape.empty() && shape[0] > 0, "a tensor without rows");
    return static_cast<int64_t>(bytes.size()) / shape[0];
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
    BIFOCAL_CHECK(0 <= begin && begin <= end && end <= shape[0], "rows [{}, {}) of {}", begin, end,
                  shape[0]);
    Tensor part = *this;
    part.shape[0] = end - begin;
    part.bytes = bytes.subspan(static_cast<size_t>(begin * row_bytes()),
                               static_cast<size_t>((end - begin) * row_bytes()));
    return part;
}

Tensor Tensor::rows_of_groups(int64_t n_groups, int64_t begin, int64_t end) const {
    BIFOCAL_CHECK(n_groups > 0 && shape[0] % n_groups == 0, "{} rows in {} groups", shape[0],
                  n_groups);
    const int64_t each = shape[0] / n_groups, n = end - begin;
    std::vector<int64_t> kept = shape;
    kept[0] = n_groups * n;
    std::byte* data = nullptr;
    Tensor copy = make_tensor(dtype, std::move(kept), &data);
    for (int64_t g = 0; g < n_groups; ++g) {
        const Tensor part = rows(g * each + begin, g * each + end);
        std::memcpy(data + g * n * row_bytes(), part.bytes.data(), part.bytes.size());
    }
    return copy;
}

Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::byte** data) {
    Tensor tensor{dtype, std::move(shape), {}, {}};
    auto buffer = std::make_shared<Buffer>(static_cast<size_t>(dtype_bytes(dtype, tensor.elems())));
    *data = buffer->data();
    tensor.bytes = {buffer->data(), buffer->size()};
    tensor.owner = std::move(buffer);
    return tensor;
}

Tensor make_tensor_f32(std::vector<int64_t> shape, std::span<const float> values) {
    std::byte* data = nullptr;
    Tensor tensor = make_tensor(DType::f32, std::move(shape), &data);
    BIFOCAL_CHECK(tensor.bytes.size() == values.size_bytes(), "{} values for {} bytes",
                  values.size(), tensor.bytes.size());
    if (!values.empty()) std::memcpy(data, values.data(), values.size_bytes());
    return tensor;
}

}  // namespace bifocal
