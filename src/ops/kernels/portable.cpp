// The kernels in plain C++: for processors without AVX2, and the twin of the faster families.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

struct Floats {
    float v[16];
};
struct Ints {
    int32_t v[16];
};
struct Codes {
    uint8_t v[64];
};
struct Doubles {
    double v[8];
};
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};
constexpr int kFloatColumns = 1;
constexpr bool kOneColumnAtATime = true;
constexpr bool kBytesNeedOffset = true;

template <class F>
inline Floats each(F f) {
    Floats r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
}

inline Floats splat(float x) {
    return each([&](int) { return x; });
}
inline float widen(float x) {
    return x;
}
inline float widen(Bf16 x) {
    return bf16_to_f32(x.bits);
}
inline float widen(F16 x) {
    return f16_to_f32(x.bits);
}
template <class T>
inline Floats load(const T* p) {
    return each([&](int i) { return widen(p[i]); });
}
template <class T>
inline Floats load_some(const T* p, int64_t n) {
    return each([&](int i) { return i < n ? widen(p[i]) : 0.0f; });
}
inline void store(float* p, Floats x) {
    std::memcpy(p, x.v, sizeof x.v);
}
inline void store_some(float* p, Floats x, int64_t n) {
    std::memcpy(p, x.v, static_cast<size_t>(n) * sizeof(float));
}
inline Floats add(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats sub(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats mul(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats div(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline Floats fma(Floats a, Floats b, Floats c) {
    return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline Floats max_of(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats min_of(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats abs_of(Floats a) {
    return each([&](int i) { return std::fabs(a.v[i]); });
}
inline Floats round_even(Floats a) {
    return each([&](int i) { return std::nearbyint(a.v[i]); });
}
// x * 2^n for whole n in [-150, 129], in two steps that each stay in range.
inline Floats times_power_of_two(Floats x, Floats n) {
    return each([&](int i) {
        if (std::isnan(x.v[i])) return x.v[i];
        const int whole = static_cast<int>(n.v[i]);
        const int half = whole / 2;
        const auto power = [](int e) {
            return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
        };
        return x.v[i] * power(half) * power(whole - half);
    });
}
inline float sum_of(Floats x) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
    }
    return x.v[0];
}
inline float largest_of(Floats x) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    }
    return x.v[0];
}
// Of both vectors; a NaN or infinity counts as larger than any number.
inline float largest_magnitude(Floats a, Floats b) {
    uint32_t top = 0;
    for (int i = 0; i < 16; ++i) {
        const auto x = std::bit_cast<uint32_t>(std::fabs(a.v[i]));
        const auto y = std::bit_cast<uint32_t>(std::fabs(b.v[i]));
        top = x > top ? x : top;
        top = y > top ? y : top;
    }
    return std::bit_cast<float>(top);
}
// The sums of each.
inline void sums_of(Floats a, Floats b, float& sum_a, float& sum_b) {
    sum_a = sum_of(a);
    sum_b = sum_of(b);
}
inline void store_i8(int8_t* p, Floats x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}
inline void store_bf16(uint16_t* p, Floats x) {
    for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(x.v[i]);
}
inline Floats load_f16(const uint8_t* p) {
    return each(
        [&](int i) { return f16_to_f32(static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8)); });
}
inline Floats load_u8(const uint8_t* p) {
    return each([&](int i) { return static_cast<float>(p[i]); });
}
inline Floats load_i8(const uint8_t* p) {
    return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
}

template <class F>
inline Codes each_code(F f) {
    Codes r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<uint8_t>(f(i));
    return r;
}
inline Codes load_codes(const uint8_t* p) {
    Codes r;
    std::memcpy(r.v, p, 64);
    return r;
}
inline Codes low_nibbles(const Codes& x) {
    return each_code([&](int i) { return x.v[i] & 15; });
}
inline Codes high_nibbles(const Codes& x) {
    return each_code([&](int i) { return x.v[i] >> 4; });
}
// Adds `value` where the bit of the 64-bit mask at p is set.
inline Codes add_bit(const Codes& x, const uint8_t* p, int value) {
    return each_code([&](int i) { return x.v[i] + (p[i / 8] >> (i % 8) & 1) * value; });
}
// Adds 16 times the two bits at kShift.
template <int kShift>
inline Codes add_pair(const Codes& x, const Codes& pairs) {
    return each_code([&](int i) { return x.v[i] + (pairs.v[i] >> kShift & 3) * 16; });
}
inline Codes look_up(const uint8_t* table, const Codes& x) {
    return each_code([&](int i) { return table[x.v[i]]; });
}

// Byte k of each row's four.
template <int k>
inline Ints byte_of(const Codes& x) {
    Ints r;
    for (int i = 0; i < 16; ++i) r.v[i] = x.v[4 * i + k];
    return r;
}

inline Ints int_zero() {
    return {};
}
template <int kLog2>
inline Ints shifted(int32_t x) {
    Ints r;
    for (int32_t& v : r.v) v = x * (1 << kLog2);
    return r;
}
inline Ints dot_codes(Ints sum, const Codes& codes, const int8_t* q) {
    for (int i = 0; i < 16; ++i) {
        for (int k = 0; k < 4; ++k) sum.v[i] += codes.v[4 * i + k] * q[k];
    }
    return sum;
}
inline Ints dot_bytes(Ints sum, const Codes& codes, const int8_t* q) {
    return dot_codes(sum, codes, q);
}
inline Floats to_floats(Ints x) {
    return each([&](int i) { return static_cast<float>(x.v[i]); });
}

template <class F>
inline Doubles each_double(F f) {
    Doubles r;
    for (int i = 0; i < 8; ++i) r.v[i] = f(i);
    return r;
}
inline Doubles splat_double(double x) {
    return each_double([&](int) { return x; });
}
inline Doubles load(const double* p) {
    return each_double([&](int i) { return p[i]; });
}
inline void store_rounded(float* p, Doubles x) {
    for (int i = 0; i < 8; ++i) p[i] = static_cast<float>(x.v[i]);
}
inline Doubles add(Doubles a, Doubles b) {
    return each_double([&](int i) { return a.v[i] + b.v[i]; });
}
inline Doubles sub(Doubles a, Doubles b) {
    return each_double([&](int i) { return a.v[i] - b.v[i]; });
}
inline Doubles mul(Doubles a, Doubles b) {
    return each_double([&](int i) { return a.v[i] * b.v[i]; });
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
    return each_double([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline Doubles round_even(Doubles x) {
    return each_double([&](int i) { return std::nearbyint(x.v[i]); });
}
inline Doubles floor_of(Doubles x) {
    return each_double([&](int i) { return std::floor(x.v[i]); });
}

#include "ops/kernels/algorithms.h"

}  // namespace

const KernelSet kPortableKernels = kTable;

}  // namespace bifocal::ops
