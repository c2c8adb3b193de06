// Element types of weights and states, and their block geometry. One table: dtype.cpp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace bifocal {

enum class DType : uint8_t {
    f32,
    f16,
    bf16,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    q4_k,
    q5_k,
    q6_k,
    mxfp4,
};

struct DTypeInfo {
    std::string_view name;
    int block_elems;  // elements that share one block; 1 for plain types
    int block_bytes;
};

const DTypeInfo& dtype_info(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
inline bool is_quantised(DType dtype) {
    return dtype >= DType::q4_0;
}

// Bytes of `elems` consecutive elements. REQUIRES: elems is a multiple of the block size.
int64_t dtype_bytes(DType dtype, int64_t elems);

inline float bf16_to_f32(uint16_t bits) {
    return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Rounds to nearest even; a NaN stays a quiet NaN.
inline uint16_t f32_to_bf16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 64u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The two below work on bits, so that they need neither _Float16 (absent in clang 14 on x86) nor
// the processor's subnormal mode.
// IEEE binary16 by bits: compilers of this age differ in whether they have _Float16. Subnormals
// kept.
inline float f16_to_f32(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x0400u) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
    const float magnitude = static_cast<float>(rest) * 0x1.0p-24f;
    return sign ? -magnitude : magnitude;
}

// Rounds to nearest even; overflow gives infinity, a NaN stays a NaN.
inline uint16_t f32_to_f16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u)
        return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
    if (magnitude <
        0x38800000u) {  // subnormal: adding 0.5 leaves the rounded value in the low bits
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23);
    return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace bifocal
