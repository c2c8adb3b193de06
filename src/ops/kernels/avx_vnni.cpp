// AVX2 with AVX-VNNI: the dot product of four bytes is one instruction.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

#include "ops/kernels/vectors_256.h"

constexpr bool kBytesNeedOffset = true;

inline Ints dot_codes(Ints sum, Codes codes, const int8_t* q) {
    const __m256i x = splat_four(q);
    return {_mm256_dpbusd_avx_epi32(sum.low, codes.low, x),
            _mm256_dpbusd_avx_epi32(sum.high, codes.high, x)};
}
inline Ints dot_bytes(Ints sum, Codes codes, const int8_t* q) {
    return dot_codes(sum, codes, q);
}

#include "ops/kernels/algorithms.h"

}  // namespace

const KernelSet kAvxVnniKernels = kTable;

}  // namespace bifocal::ops

#endif
