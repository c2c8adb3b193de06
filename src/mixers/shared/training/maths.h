// Sums and products that forwards and backwards are made of, template on the number type: in
// double and on the plain path loops as on paper, on the fast float path the kernels of this
// machine. Memory comes from a workspace or is only counted.
#pragma once

#include <algorithm>
#include <type_traits>

#include "mixers/training.h"
#include "ops/kernels/kernels.h"

namespace bifocal::training {

// C = A B, or C += A B; as ops::SmallProduct.
template <class R>
struct Product {
    int64_t n_rows, n_columns, n_inner;
    const R* a;  // a[i, k] at i * a_row + k * a_inner
    int64_t a_row, a_inner;
    const R* b;  // rows of n_columns, b_row apart
    int64_t b_row;
    R* c;  // rows of n_columns, c_row apart
    int64_t c_row;
    bool accumulate;
};

template <class R>
struct Maths {
    bool is_plain = false;

    bool has_kernels() const { return std::is_same_v<R, float> && !is_plain; }

    void product(const Product<R>& p) const {
        if constexpr (std::is_same_v<R, float>) {
            if (has_kernels())
                return ops::kernels().small_product({p.n_rows, p.n_columns, p.n_inner, p.a, p.a_row,
                                                     p.a_inner, p.b, p.b_row, p.c, p.c_row,
                                                     p.accumulate});
        }
        for (int64_t i = 0; i < p.n_rows; ++i) {
            R* const c = p.c + i * p.c_row;
            if (!p.accumulate) std::fill_n(c, p.n_columns, R(0));
            for (int64_t k = 0; k < p.n_inner; ++k) {
                const R a = p.a[i * p.a_row + k * p.a_inner];
                const R* const b = p.b + k * p.b_row;
                for (int64_t j = 0; j < p.n_columns; ++j) c[j] += a * b[j];
            }
        }
    }
    R dot(const R* a, const R* b, int64_t n) const {
        if constexpr (std::is_same_v<R, float>) {
            if (has_kernels()) return ops::kernels().dot(a, b, n);
        }
        R sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
        return sum;
    }
    // y += w x
    void axpy(R w, const R* x, R* y, int64_t n) const {
        if constexpr (std::is_same_v<R, float>) {
            if (has_kernels()) return ops::kernels().axpy(w, x, y, n);
        }
        for (int64_t i = 0; i < n; ++i) y[i] += w * x[i];
    }
};

// Stands in for a Workspace where its size is found.
struct ByteCount {
    size_t bytes = 0;
};
template <class R>
R* take(ByteCount& count, int64_t n) {
    count.bytes += align_up(static_cast<size_t>(n) * sizeof(R));
    return nullptr;
}
template <class R>
R* take(Workspace& workspace, int64_t n) {
    return workspace.take<R>(n).data();
}
template <class R, class Memory>
View<R, 2> take_rows(Memory& memory, int64_t n, int64_t width) {
    return View<R, 2>(take<R>(memory, n * width), {n, width});
}

template <class R>
void clear(View<R, 2> x) {
    std::fill_n(x.data, x.size(), R(0));
}

// Sums over tokens are made in blocks of so many, so that threads do not change them.
inline constexpr int64_t kTokenBlock = 64;

// What the parts of one call share.
template <class R>
struct Run {
    Maths<R> maths;
    ThreadPool& pool;
    const WeightValues<R>& weights;
    const WeightGrads<R>* grads;  // null: a forward
    R* turned;                    // of the largest matrix, transposed
    R* partial;                   // [blocks of tokens, most of its numbers]

    // Null: the layer has none.
    const R* weight(std::string_view name) const {
        const auto it = weights.find(name);
        return it == weights.end() ? nullptr : it->second.data();
    }
    // Null: it is frozen.
    R* grad(std::string_view name) const {
        const auto it = grads->find(name);
        return it == grads->end() ? nullptr : it->second.data();
    }

    // Calls body(token, sums) for N tokens; sums [width] start at 0 and are added up in order.
    // add(i, sum) takes each.
    template <class Body, class Add>
    void sum_over_tokens(int64_t n, int64_t width, Body body, Add add) const {
        const int64_t blocks = (n + kTokenBlock - 1) / kTokenBlock;
        pool.parallel_for(blocks, 1, [&](int64_t begin, int64_t end, int thread) {
            for (int64_t i = begin; i < end; ++i) {
                R* const sums = partial + i * width;
                std::fill_n(sums, width, R(0));
                for (int64_t t = i * kTokenBlock; t < std::min(n, (i + 1) * kTokenBlock); ++t)
                    body(t, sums, thread);
            }
        });
        for (int64_t i = 0; i < blocks; ++i)
            for (int64_t j = 0; j < width; ++j) add(j, partial[i * width + j]);
    }
};

// Sizes of a Run's scratch.
struct RunSizes {
    int64_t turned = 0, partial_width = 0;
    void fit(const RunSizes& other) {
        turned = std::max(turned, other.turned);
        partial_width = std::max(partial_width, other.partial_width);
    }
};
template <class R, class Memory>
void take_scratch(Memory& memory, const RunSizes& sizes, int64_t n, R*& turned, R*& partial) {
    turned = take<R>(memory, sizes.turned);
    partial = take<R>(memory, (n + kTokenBlock - 1) / kTokenBlock * sizes.partial_width);
}

}  // namespace bifocal::training
