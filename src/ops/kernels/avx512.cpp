// AVX-512 with VNNI: a vector of 16 lanes is one register.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

using Floats = __m512;
using Ints = __m512i;
using Codes = __m512i;
using Doubles = __m512d;
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};
constexpr int kFloatColumns = 12;  // two chains of 12 columns fill 24 registers
constexpr bool kOneColumnAtATime = false;
constexpr bool kBytesNeedOffset = true;

inline Floats splat(float x) {
    return _mm512_set1_ps(x);
}
inline Floats from_bf16(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
inline __mmask16 first(int64_t n) {
    return static_cast<__mmask16>((1u << n) - 1);
}
inline __m256i load_256(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline Floats load(const float* p) {
    return _mm512_loadu_ps(p);
}
inline Floats load(const Bf16* p) {
    return from_bf16(load_256(p));
}
inline Floats load(const F16* p) {
    return _mm512_cvtph_ps(load_256(p));
}
inline Floats load_some(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(first(n), p);
}
inline Floats load_some(const Bf16* p, int64_t n) {
    return from_bf16(_mm256_maskz_loadu_epi16(first(n), p));
}
inline void store(float* p, Floats x) {
    _mm512_storeu_ps(p, x);
}
inline void store_some(float* p, Floats x, int64_t n) {
    _mm512_mask_storeu_ps(p, first(n), x);
}
inline Floats add(Floats a, Floats b) {
    return _mm512_add_ps(a, b);
}
inline Floats sub(Floats a, Floats b) {
    return _mm512_sub_ps(a, b);
}
inline Floats mul(Floats a, Floats b) {
    return _mm512_mul_ps(a, b);
}
inline Floats div(Floats a, Floats b) {
    return _mm512_div_ps(a, b);
}
inline Floats fma(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
}
inline Floats max_of(Floats a, Floats b) {
    return _mm512_max_ps(a, b);
}
inline Floats min_of(Floats a, Floats b) {
    return _mm512_min_ps(a, b);
}
inline Floats abs_of(Floats a) {
    return _mm512_abs_ps(a);
}
inline Floats round_even(Floats a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Floats times_power_of_two(Floats x, Floats n) {
    return _mm512_scalef_ps(x, n);
}
inline float sum_of(Floats x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest_of(Floats x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
// Of both vectors; a NaN or infinity counts as larger than any number.
inline float largest_magnitude(Floats a, Floats b) {
    const __m512i bits = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(a)),
                                          _mm512_castps_si512(_mm512_abs_ps(b)));
    const __m256i eight =
        _mm256_max_epi32(_mm512_castsi512_si256(bits), _mm512_extracti32x8_epi32(bits, 1));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(four));
}
// The sums of each.
inline void sums_of(Floats a, Floats b, float& sum_a, float& sum_b) {
    const __m256 a8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m256 b8 = _mm256_add_ps(_mm512_castps512_ps256(b), _mm512_extractf32x8_ps(b, 1));
    const __m256 both = _mm256_hadd_ps(a8, b8);  // per half: 2 of a, 2 of b
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehdup_ps(four));
    sum_a = _mm_cvtss_f32(two);
    sum_b = _mm_cvtss_f32(_mm_movehl_ps(two, two));
}
inline void store_i8(int8_t* p, Floats x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}
inline void store_bf16(uint16_t* p, Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i y = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    y = _mm512_srli_epi32(y, 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    y = _mm512_mask_or_epi32(y, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(64));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(y));
}
inline Floats load_f16(const uint8_t* p) {
    return _mm512_cvtph_ps(load_256(p));
}
inline __m128i load_128(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline Floats load_u8(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(p)));
}
inline Floats load_i8(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p)));
}

inline Codes load_codes(const uint8_t* p) {
    return _mm512_loadu_si512(p);
}
inline Codes low_nibbles(Codes x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(15));
}
inline Codes high_nibbles(Codes x) {
    return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
}
inline Codes add_bit(Codes x, const uint8_t* p, int value) {
    uint64_t mask;
    __builtin_memcpy(&mask, p, 8);
    return _mm512_mask_add_epi8(x, mask, x, _mm512_set1_epi8(static_cast<char>(value)));
}
template <int kShift>
inline Codes add_pair(Codes x, Codes pairs) {
    const Codes moved = kShift < 4 ? _mm512_slli_epi16(pairs, kShift < 4 ? 4 - kShift : 0)
                                   : _mm512_srli_epi16(pairs, kShift < 4 ? 0 : kShift - 4);
    return _mm512_or_si512(x, _mm512_and_si512(moved, _mm512_set1_epi8(48)));
}
inline Codes look_up(const uint8_t* table, Codes x) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(table)), x);
}

// Byte k of each row's four.
template <int k>
inline Ints byte_of(Codes x) {
    return _mm512_and_si512(_mm512_srli_epi32(x, 8 * k), _mm512_set1_epi32(255));
}

inline Ints int_zero() {
    return _mm512_setzero_si512();
}
template <int kLog2>
inline Ints shifted(int32_t x) {
    return _mm512_slli_epi32(_mm512_set1_epi32(x), kLog2);
}
inline Ints dot_codes(Ints sum, Codes codes, const int8_t* q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four));
}
inline Ints dot_bytes(Ints sum, Codes codes, const int8_t* q) {
    return dot_codes(sum, codes, q);
}
inline Floats to_floats(Ints x) {
    return _mm512_cvtepi32_ps(x);
}

inline Doubles splat_double(double x) {
    return _mm512_set1_pd(x);
}
inline Doubles load(const double* p) {
    return _mm512_loadu_pd(p);
}
inline void store_rounded(float* p, Doubles x) {
    _mm256_storeu_ps(p, _mm512_cvtpd_ps(x));
}
inline Doubles add(Doubles a, Doubles b) {
    return _mm512_add_pd(a, b);
}
inline Doubles sub(Doubles a, Doubles b) {
    return _mm512_sub_pd(a, b);
}
inline Doubles mul(Doubles a, Doubles b) {
    return _mm512_mul_pd(a, b);
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
    return _mm512_fmadd_pd(a, b, c);
}
inline Doubles round_even(Doubles x) {
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Doubles floor_of(Doubles x) {
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

#include "ops/kernels/algorithms.h"

}  // namespace

const KernelSet kAvx512Kernels = kTable;

}  // namespace bifocal::ops

#endif
