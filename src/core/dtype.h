// Element types of weights and states, and their block geometry. One table: dtype.cpp.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace bifocal {

enum class DType : uint8_t {
    f32, f16, bf16, f64, i8, i16, i32, i64, u8,
    q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, mxfp4,
};

struct DTypeInfo {
    std::string_view name;
    int block_elems;  // elements that share one block; 1 for plain types
    int block_bytes;
};

const DTypeInfo& dtype_info(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
inline bool is_quantised(DType dtype) { return dtype >= DType::q4_0; }

// Bytes of `elems` consecutive elements. REQUIRES: elems is a multiple of the block size.
int64_t dtype_bytes(DType dtype, int64_t elems);

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Rounds to nearest even; a NaN stays a quiet NaN.
inline uint16_t f32_to_bf16(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 64u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(uint16_t bits) {
    _Float16 h;
    std::memcpy(&h, &bits, sizeof h);
    return static_cast<float>(h);
}

inline uint16_t f32_to_f16(float x) {
    const _Float16 h = static_cast<_Float16>(x);
    uint16_t bits;
    std::memcpy(&bits, &h, sizeof bits);
    return bits;
}

}  // namespace bifocal
