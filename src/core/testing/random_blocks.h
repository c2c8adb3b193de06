// Random but sane rows of any real type for tests: every byte pattern of the quants may occur,
// while the scales stay small, finite and of either sign. Values come out between about -4 and 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/check.h"
#include "core/dequant.h"
#include "core/quant_blocks.h"

namespace bifocal::testing {

// Uniform in [-1, 1); the same on every standard library, unlike std::uniform_real_distribution.
inline float random_unit(std::mt19937_64& rng) {
    return static_cast<float>(static_cast<int64_t>(rng() >> 40) - (1 << 23)) * 0x1p-23f;
}

// REQUIRES: is_real(dtype); n_elems is a multiple of the block size.
inline std::vector<std::byte> random_blocks(DType dtype, int64_t n_elems, std::mt19937_64& rng) {
    BIFOCAL_CHECK(is_real(dtype), "{} elements are not real numbers", dtype_info(dtype).name);
    std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype, n_elems)));
    auto* b = reinterpret_cast<uint8_t*>(bytes.data());
    const size_t step = static_cast<size_t>(dtype_info(dtype).block_bytes);
    for (size_t at = 0; at < bytes.size(); at += step, b += step) {
        for (size_t i = 0; i < step; ++i) b[i] = static_cast<uint8_t>(rng() >> 56);
        const float x = random_unit(rng);
        const float z = random_unit(rng);
        switch (dtype) {
            case DType::f32:
                std::memcpy(b, &x, sizeof x);
                break;
            case DType::f16:
                store_f16(b, x);
                break;
            case DType::bf16: {
                const uint16_t bits = f32_to_bf16(x);
                std::memcpy(b, &bits, sizeof bits);
                break;
            }
            case DType::f64: {
                const double wide = x;
                std::memcpy(b, &wide, sizeof wide);
                break;
            }
            case DType::q4_0:
                store_f16(b, x / 8);
                break;
            case DType::q5_0:
                store_f16(b, x / 16);
                break;
            case DType::q8_0:
                store_f16(b, x / 128);
                break;
            case DType::q4_1:
                store_f16(b, x / 8);
                store_f16(b + 2, z);
                break;
            case DType::q5_1:
                store_f16(b, x / 16);
                store_f16(b + 2, z);
                break;
            case DType::q4_k:
                store_f16(b, x / 512);
                store_f16(b + 2, z / 64);
                break;
            case DType::q5_k:
                store_f16(b, x / 1024);
                store_f16(b + 2, z / 64);
                break;
            case DType::q6_k:
                store_f16(b + 208, x / 2048);
                break;
            case DType::mxfp4:
                b[0] = static_cast<uint8_t>(120 + rng() % 8);
                break;
            default:
                break;
        }
    }
    return bytes;
}

}  // namespace bifocal::testing
