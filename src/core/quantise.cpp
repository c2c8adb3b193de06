#include "core/quantise.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/dequant.h"
#include "core/quant_blocks.h"

namespace bifocal {
namespace {

struct Range {
    float min;
    float max;
    float signed_peak;  // the value of largest magnitude, with its sign
};

Range range_of(const float* x, int n) {
    Range range{x[0], x[0], x[0]};
    for (int i = 1; i < n; ++i) {
        range.min = std::min(range.min, x[i]);
        range.max = std::max(range.max, x[i]);
        if (std::fabs(x[i]) > std::fabs(range.signed_peak)) range.signed_peak = x[i];
    }
    return range;
}

float inverse(float d) {
    return d == 0.0f ? 0.0f : 1.0f / d;
}

// Nibbles in half-split order, and the fifth bits in element order.
void pack_nibbles(const int* q, uint8_t* nibbles) {
    for (int j = 0; j < 16; ++j) {
        nibbles[j] = static_cast<uint8_t>((q[j] & 15) | (q[j + 16] & 15) << 4);
    }
}
void pack_fifth_bits(const int* q, uint8_t* high) {
    for (int i = 0; i < 4; ++i) high[i] = 0;
    for (int j = 0; j < 32; ++j) {
        high[j / 8] = static_cast<uint8_t>(high[j / 8] | ((q[j] >> 4) & 1) << (j % 8));
    }
}

// The signed types reach one step further below zero than above, so the peak takes that step.
void encode_signed(const float* x, uint8_t* b, int half_levels, int* q) {
    const float d = range_of(x, 32).signed_peak / static_cast<float>(-half_levels);
    const float id = inverse(d);
    store_f16(b, d);
    for (int j = 0; j < 32; ++j) {
        const float shifted = x[j] * id + (static_cast<float>(half_levels) + 0.5f);
        q[j] = std::min(2 * half_levels - 1, static_cast<int>(shifted));
    }
}

void encode_with_min(const float* x, uint8_t* b, int top, int* q) {
    const Range range = range_of(x, 32);
    const float d = (range.max - range.min) / static_cast<float>(top);
    const float id = inverse(d);
    store_f16(b, d);
    store_f16(b + 2, range.min);
    for (int j = 0; j < 32; ++j) {
        q[j] = std::min(top, static_cast<int>((x[j] - range.min) * id + 0.5f));
    }
}

void encode_q4_0(const float* x, uint8_t* b) {
    int q[32];
    encode_signed(x, b, 8, q);
    pack_nibbles(q, b + 2);
}

void encode_q4_1(const float* x, uint8_t* b) {
    int q[32];
    encode_with_min(x, b, 15, q);
    pack_nibbles(q, b + 4);
}

void encode_q5_0(const float* x, uint8_t* b) {
    int q[32];
    encode_signed(x, b, 16, q);
    pack_fifth_bits(q, b + 2);
    pack_nibbles(q, b + 6);
}

void encode_q5_1(const float* x, uint8_t* b) {
    int q[32];
    encode_with_min(x, b, 31, q);
    pack_fifth_bits(q, b + 4);
    pack_nibbles(q, b + 8);
}

void encode_q8_0(const float* x, uint8_t* b) {
    const float d = std::fabs(range_of(x, 32).signed_peak) / 127.0f;
    const float id = inverse(d);
    store_f16(b, d);
    for (int j = 0; j < 32; ++j) {
        b[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(std::round(x[j] * id)));
    }
}

int nearest(float x, int low, int high) {
    return static_cast<int>(
        std::clamp(std::round(x), static_cast<float>(low), static_cast<float>(high)));
}

// The head of Q4_K and Q5_K (d, dmin, packed 6-bit pairs) and the quants of the eight sub-blocks.
void encode_scaled_k(const float* x, int top, uint8_t* b, int* q) {
    float scale[8], low[8];
    float top_scale = 0.0f, top_low = 0.0f;
    for (int j = 0; j < 8; ++j) {
        const Range range = range_of(x + 32 * j, 32);
        low[j] = std::max(0.0f, -range.min);  // what is subtracted is never negative
        scale[j] = (std::max(range.max, 0.0f) + low[j]) / static_cast<float>(top);
        top_scale = std::max(top_scale, scale[j]);
        top_low = std::max(top_low, low[j]);
    }
    store_f16(b, top_scale / 63.0f);
    store_f16(b + 2, top_low / 63.0f);
    const float d = load_f16(b);
    const float dmin = load_f16(b + 2);
    uint8_t* s = b + 4;
    std::memset(s, 0, 12);
    for (int j = 0; j < 8; ++j) {
        const int sc = nearest(scale[j] * inverse(d), 0, 63);
        const int m = nearest(low[j] * inverse(dmin), 0, 63);
        if (j < 4) {
            s[j] = static_cast<uint8_t>(s[j] | sc);
            s[j + 4] = static_cast<uint8_t>(s[j + 4] | m);
        } else {
            s[j + 4] = static_cast<uint8_t>((sc & 15) | (m & 15) << 4);
            s[j - 4] = static_cast<uint8_t>(s[j - 4] | (sc >> 4) << 6);
            s[j] = static_cast<uint8_t>(s[j] | (m >> 4) << 6);
        }
        const float inv = inverse(d * static_cast<float>(sc));
        const float min = dmin * static_cast<float>(m);
        for (int l = 0; l < 32; ++l) {
            q[32 * j + l] = nearest((x[32 * j + l] + min) * inv, 0, top);
        }
    }
}

void pack_nibbles_k(const int* q, uint8_t* nibbles) {
    for (int c = 0; c < 4; ++c) {
        for (int l = 0; l < 32; ++l) {
            nibbles[32 * c + l] =
                static_cast<uint8_t>((q[64 * c + l] & 15) | (q[64 * c + 32 + l] & 15) << 4);
        }
    }
}

void encode_q4_k(const float* x, uint8_t* b) {
    int q[256];
    encode_scaled_k(x, 15, b, q);
    pack_nibbles_k(q, b + 16);
}

void encode_q5_k(const float* x, uint8_t* b) {
    int q[256];
    encode_scaled_k(x, 31, b, q);
    for (int l = 0; l < 32; ++l) {
        int bits = 0;
        for (int j = 0; j < 8; ++j) bits |= (q[32 * j + l] >> 4) << j;
        b[16 + l] = static_cast<uint8_t>(bits);
    }
    pack_nibbles_k(q, b + 48);
}

void encode_q6_k(const float* x, uint8_t* b) {
    float scale[16];
    float top = 0.0f;
    for (int s = 0; s < 16; ++s) {
        scale[s] = std::fabs(range_of(x + 16 * s, 16).signed_peak) / 31.0f;
        top = std::max(top, scale[s]);
    }
    store_f16(b + 208, top / 127.0f);
    const float d = load_f16(b + 208);
    std::memset(b, 0, 192);
    for (int i = 0; i < 256; ++i) {
        const int s = i / 16;  // 16 consecutive elements share a scale
        const int sc = nearest(scale[s] * inverse(d), 0, 127);
        b[192 + s] = static_cast<uint8_t>(sc);
        const int q = nearest(x[i] * inverse(d * static_cast<float>(sc)), -32, 31) + 32;
        const int half = i / 128, k = i % 128 / 32, l = i % 32;
        uint8_t& low = b[64 * half + 32 * (k & 1) + l];
        uint8_t& high = b[128 + 32 * half + l];
        low = static_cast<uint8_t>(low | (q & 15) << (k < 2 ? 0 : 4));
        high = static_cast<uint8_t>(high | (q >> 4) << (2 * k));
    }
}

void encode_mxfp4(const float* x, uint8_t* b) {
    const float peak = std::fabs(range_of(x, 32).signed_peak);
    int exponent = 0;
    std::frexp(peak, &exponent);  // peak = f * 2^exponent, f in [0.5, 1)
    // The largest table value is 6, whose own exponent is 2.
    b[0] = static_cast<uint8_t>(peak == 0.0f ? 0 : std::clamp(exponent - 1 - 2 + 127, 0, 254));
    const float scale = mxfp4_half_scale(b[0]);
    int q[32];
    for (int j = 0; j < 32; ++j) {
        q[j] = 0;
        float best = std::fabs(x[j]);
        for (int candidate = 1; candidate < 16; ++candidate) {
            const float miss =
                std::fabs(static_cast<float>(kMxfp4Doubled[candidate]) * scale - x[j]);
            if (miss < best) {
                best = miss;
                q[j] = candidate;
            }
        }
    }
    pack_nibbles(q, b + 1);
}

using EncodeBlock = void (*)(const float*, uint8_t*);

EncodeBlock block_encoder(DType dtype) {
    switch (dtype) {
        case DType::q4_0:
            return encode_q4_0;
        case DType::q4_1:
            return encode_q4_1;
        case DType::q5_0:
            return encode_q5_0;
        case DType::q5_1:
            return encode_q5_1;
        case DType::q8_0:
            return encode_q8_0;
        case DType::q4_k:
            return encode_q4_k;
        case DType::q5_k:
            return encode_q5_k;
        case DType::q6_k:
            return encode_q6_k;
        case DType::mxfp4:
            return encode_mxfp4;
        default:
            return nullptr;
    }
}

template <class T, class Convert>
void encode_plain(std::span<const float> values, std::byte* row, Convert convert) {
    for (size_t i = 0; i < values.size(); ++i) {
        const T x = convert(values[i]);
        std::memcpy(row + i * sizeof(T), &x, sizeof(T));
    }
}

}  // namespace

void quantise_row(DType dtype, std::span<const float> values, std::byte* row) {
    BIFOCAL_CHECK(is_real(dtype), "{} elements are not real numbers", dtype_info(dtype).name);
    if (const EncodeBlock encode = block_encoder(dtype)) {
        const DTypeInfo& info = dtype_info(dtype);
        BIFOCAL_CHECK(values.size() % static_cast<size_t>(info.block_elems) == 0,
                      "{} elements of {} do not fill blocks of {}", values.size(), info.name,
                      info.block_elems);
        auto* b = reinterpret_cast<uint8_t*>(row);
        for (size_t i = 0; i < values.size(); i += static_cast<size_t>(info.block_elems)) {
            encode(values.data() + i, b);
            b += info.block_bytes;
        }
        return;
    }
    switch (dtype) {
        case DType::f16:
            encode_plain<uint16_t>(values, row, f32_to_f16);
            return;
        case DType::bf16:
            encode_plain<uint16_t>(values, row, f32_to_bf16);
            return;
        case DType::f64:
            encode_plain<double>(values, row, [](float x) -> double { return x; });
            return;
        default:
            encode_plain<float>(values, row, [](float x) { return x; });
            return;
    }
}

std::vector<std::byte> quantise(DType dtype, std::span<const float> values) {
    std::vector<std::byte> bytes(
        static_cast<size_t>(dtype_bytes(dtype, static_cast<int64_t>(values.size()))));
    quantise_row(dtype, values, bytes.data());
    return bytes;
}

}  // namespace bifocal
