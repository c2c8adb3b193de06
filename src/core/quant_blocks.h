// Helpers shared by the decoders and encoders of quantised blocks. Notation of the comments: `d` is
// a block's scale, `m` its minimum; all offsets are in bytes from the start of the block.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace bifocal {

inline float load_f16(const uint8_t* at) {
    return f16_to_f32(static_cast<uint16_t>(at[0] | at[1] << 8));
}

inline void store_f16(uint8_t* at, float x) {
    const uint16_t bits = f32_to_f16(x);
    at[0] = static_cast<uint8_t>(bits);
    at[1] = static_cast<uint8_t>(bits >> 8);
}

// The 6-bit scale and minimum of sub-block j (0..7) of Q4_K and Q5_K, out of 12 packed bytes: the
// low six bits of the first eight bytes serve j < 4; their top two bits are the high bits of the
// rest.
struct ScaleMin {
    int scale;
    int min;
};
inline ScaleMin scale_min_k(const uint8_t* s, int j) {
    if (j < 4) return {s[j] & 63, s[j + 4] & 63};
    return {(s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4};
}

// 2^(e - 128), half of what the exponent byte of MXFP4 says, because its value table below is
// doubled to be whole numbers. 255 is the format's NaN.
inline float mxfp4_half_scale(uint8_t e) {
    if (e == 255) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}
inline constexpr int8_t kMxfp4Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                             0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace bifocal
