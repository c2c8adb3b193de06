#include "core/dequant.h"

#include "core/check.h"
#include "core/quant_blocks.h"

namespace bifocal {
namespace {

// In the 32-element types, byte j of the nibbles holds elements j (low) and j + 16 (high).

void decode_q4_0(const uint8_t* b, float* y) {  // d 0, nibbles 2
    const float d = load_f16(b);
    for (int j = 0; j < 16; ++j) {
        y[j] = static_cast<float>((b[2 + j] & 15) - 8) * d;
        y[j + 16] = static_cast<float>((b[2 + j] >> 4) - 8) * d;
    }
}

void decode_q4_1(const uint8_t* b, float* y) {  // d 0, m 2, nibbles 4
    const float d = load_f16(b);
    const float m = load_f16(b + 2);
    for (int j = 0; j < 16; ++j) {
        y[j] = static_cast<float>(b[4 + j] & 15) * d + m;
        y[j + 16] = static_cast<float>(b[4 + j] >> 4) * d + m;
    }
}

uint32_t load_u32(const uint8_t* at) {
    return at[0] | static_cast<uint32_t>(at[1]) << 8 | static_cast<uint32_t>(at[2]) << 16 |
           static_cast<uint32_t>(at[3]) << 24;
}

void decode_q5_0(const uint8_t* b, float* y) {  // d 0, fifth bits 2, nibbles 6
    const float d = load_f16(b);
    const uint32_t high = load_u32(b + 2);
    for (int j = 0; j < 16; ++j) {
        const int low_q = (b[6 + j] & 15) | static_cast<int>((high >> j) & 1) << 4;
        const int high_q = (b[6 + j] >> 4) | static_cast<int>((high >> (j + 16)) & 1) << 4;
        y[j] = static_cast<float>(low_q - 16) * d;
        y[j + 16] = static_cast<float>(high_q - 16) * d;
    }
}

void decode_q5_1(const uint8_t* b, float* y) {  // d 0, m 2, fifth bits 4, nibbles 8
    const float d = load_f16(b);
    const float m = load_f16(b + 2);
    const uint32_t high = load_u32(b + 4);
    for (int j = 0; j < 16; ++j) {
        const int low_q = (b[8 + j] & 15) | static_cast<int>((high >> j) & 1) << 4;
        const int high_q = (b[8 + j] >> 4) | static_cast<int>((high >> (j + 16)) & 1) << 4;
        y[j] = static_cast<float>(low_q) * d + m;
        y[j + 16] = static_cast<float>(high_q) * d + m;
    }
}

void decode_q8_0(const uint8_t* b, float* y) {  // d 0, int8 2
    const float d = load_f16(b);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<int8_t>(b[2 + j])) * d;
}

void decode_q4_k(const uint8_t* b, float* y) {  // d 0, dmin 2, scales 4, nibbles 16
    const float d = load_f16(b);
    const float dmin = load_f16(b + 2);
    for (int j = 0; j < 8; ++j) {
        const ScaleMin s = scale_min_k(b + 4, j);
        const float scale = d * static_cast<float>(s.scale);
        const float min = dmin * static_cast<float>(s.min);
        const uint8_t* nibbles = b + 16 + 32 * (j / 2);
        const int shift = 4 * (j & 1);
        for (int l = 0; l < 32; ++l) {
            const int q = (nibbles[l] >> shift) & 15;
            y[32 * j + l] = scale * static_cast<float>(q) - min;
        }
    }
}

void decode_q5_k(const uint8_t* b, float* y) {  // d 0, dmin 2, scales 4, fifth bits 16, nibbles 48
    const float d = load_f16(b);
    const float dmin = load_f16(b + 2);
    for (int j = 0; j < 8; ++j) {
        const ScaleMin s = scale_min_k(b + 4, j);
        const float scale = d * static_cast<float>(s.scale);
        const float min = dmin * static_cast<float>(s.min);
        const uint8_t* nibbles = b + 48 + 32 * (j / 2);
        const int shift = 4 * (j & 1);
        for (int l = 0; l < 32; ++l) {
            const int q = ((nibbles[l] >> shift) & 15) | ((b[16 + l] >> j) & 1) << 4;
            y[32 * j + l] = scale * static_cast<float>(q) - min;
        }
    }
}

void decode_q6_k(const uint8_t* b, float* y) {  // low nibbles 0, high pairs 128, scales 192, d 208
    const float d = load_f16(b + 208);
    for (int half = 0; half < 2; ++half) {
        for (int k = 0; k < 4; ++k) {
            const uint8_t* low = b + 64 * half + 32 * (k & 1);
            const uint8_t* high = b + 128 + 32 * half;
            const int low_shift = k < 2 ? 0 : 4;
            for (int l = 0; l < 32; ++l) {
                const int q = (((low[l] >> low_shift) & 15) | ((high[l] >> (2 * k)) & 3) << 4) - 32;
                const int scale = static_cast<int8_t>(b[192 + 8 * half + 2 * k + l / 16]);
                y[128 * half + 32 * k + l] = d * static_cast<float>(scale) * static_cast<float>(q);
            }
        }
    }
}

void decode_mxfp4(const uint8_t* b, float* y) {  // exponent 0, nibbles 1
    const float scale = mxfp4_half_scale(b[0]);
    for (int j = 0; j < 16; ++j) {
        y[j] = static_cast<float>(kMxfp4Doubled[b[1 + j] & 15]) * scale;
        y[j + 16] = static_cast<float>(kMxfp4Doubled[b[1 + j] >> 4]) * scale;
    }
}

using DecodeBlock = void (*)(const uint8_t*, float*);

DecodeBlock block_decoder(DType dtype) {
    switch (dtype) {
        case DType::q4_0:
            return decode_q4_0;
        case DType::q4_1:
            return decode_q4_1;
        case DType::q5_0:
            return decode_q5_0;
        case DType::q5_1:
            return decode_q5_1;
        case DType::q8_0:
            return decode_q8_0;
        case DType::q4_k:
            return decode_q4_k;
        case DType::q5_k:
            return decode_q5_k;
        case DType::q6_k:
            return decode_q6_k;
        case DType::mxfp4:
            return decode_mxfp4;
        default:
            return nullptr;
    }
}

void decode_f16(const uint8_t* row, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = load_f16(row + 2 * i);
}

void decode_bf16(const uint8_t* row, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) {
        out[i] = bf16_to_f32(static_cast<uint16_t>(row[2 * i] | row[2 * i + 1] << 8));
    }
}

void decode_f64(const uint8_t* row, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) {
        double x;
        std::memcpy(&x, row + 8 * i, sizeof x);
        out[i] = static_cast<float>(x);
    }
}

}  // namespace

void dequantise_row(DType dtype, const std::byte* row, std::span<float> out) {
    if (out.empty()) return;
    const auto* bytes = reinterpret_cast<const uint8_t*>(row);
    if (const DecodeBlock decode = block_decoder(dtype)) {
        const DTypeInfo& info = dtype_info(dtype);
        BIFOCAL_CHECK(out.size() % static_cast<size_t>(info.block_elems) == 0,
                      "{} elements of {} do not fill blocks of {}", out.size(), info.name,
                      info.block_elems);
        for (size_t i = 0; i < out.size(); i += static_cast<size_t>(info.block_elems)) {
            decode(bytes, out.data() + i);
            bytes += info.block_bytes;
        }
        return;
    }
    switch (dtype) {
        case DType::f32:
            std::memcpy(out.data(), bytes, out.size_bytes());
            return;
        case DType::f16:
            decode_f16(bytes, out);
            return;
        case DType::bf16:
            decode_bf16(bytes, out);
            return;
        case DType::f64:
            decode_f64(bytes, out);
            return;
        default:
            BIFOCAL_CHECK(false, "{} elements are not real numbers", dtype_info(dtype).name);
    }
}

}  // namespace bifocal
