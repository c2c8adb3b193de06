// View<T, N>: a non-owning N-dimensional array, shapes outermost first, strides in elements.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/check.h"

namespace bifocal {

template <class T, int N>
struct View {
    T* data = nullptr;
    std::array<int64_t, N> shape{};
    std::array<int64_t, N> stride{};

    View() = default;
    // Dense, row-major.
    View(T* data_, std::array<int64_t, N> shape_) : data(data_), shape(shape_) {
        int64_t step = 1;
        for (int i = N - 1; i >= 0; --i) {
            stride[i] = step;
            step *= shape[i];
        }
    }
    View(T* data_, std::array<int64_t, N> shape_, std::array<int64_t, N> stride_)
        : data(data_), shape(shape_), stride(stride_) {}
    // A view of mutable elements is a view of const ones.
    template <class U>
    requires(std::is_same_v<const U, T> && !std::is_const_v<U>) View(const View<U, N>& other)
        : data(other.data), shape(other.shape), stride(other.stride) {}

    int64_t size() const {
        int64_t n = 1;
        for (int64_t extent : shape) n *= extent;
        return n;
    }
    template <class... I>
    T& operator()(I... index) const {
        static_assert(sizeof...(I) == N);
        const std::array<int64_t, N> at{static_cast<int64_t>(index)...};
        int64_t offset = 0;
        for (int i = 0; i < N; ++i) offset += at[i] * stride[i];
        return data[offset];
    }
    // The sub-view at index i of the outermost dimension.
    View<T, N - 1> operator[](int64_t i) const requires(N > 1) {
        View<T, N - 1> inner;
        inner.data = data + i * stride[0];
        for (int d = 1; d < N; ++d) {
            inner.shape[d - 1] = shape[d];
            inner.stride[d - 1] = stride[d];
        }
        return inner;
    }
    // The last dimension at row i of a matrix. REQUIRES: the last stride is 1.
    std::span<T> row(int64_t i) const requires(N == 2) {
        return {data + i * stride[0], static_cast<size_t>(shape[1])};
    }
};

}  // namespace bifocal
