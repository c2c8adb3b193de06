// AVX2 with FMA and F16C. Products of bytes pass through 16 bits, which saturate: codes stay below
// 64, and full bytes are multiplied as |w| times x with the sign of w, so sums of two fit.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

#include "ops/kernels/vectors_256.h"

constexpr bool kBytesNeedOffset = false;  // dot_bytes() takes it off itself

inline __m256i add_products(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
    const __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline Ints dot_codes(Ints sum, Codes codes, const int8_t* q) {
    const __m256i x = splat_four(q);
    return {add_products(sum.low, codes.low, x), add_products(sum.high, codes.high, x)};
}
inline __m256i add_signed(__m256i sum, __m256i shifted_bytes, __m256i x) {
    const __m256i w = _mm256_xor_si256(shifted_bytes, _mm256_set1_epi8(-128));
    return add_products(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
inline Ints dot_bytes(Ints sum, Codes codes, const int8_t* q) {
    const __m256i x = splat_four(q);
    return {add_signed(sum.low, codes.low, x), add_signed(sum.high, codes.high, x)};
}

#include "ops/kernels/algorithms.h"

}  // namespace

const KernelSet kAvx2Kernels = kTable;

}  // namespace bifocal::ops

#endif
