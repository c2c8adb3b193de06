#include "ops/packing.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/quant_blocks.h"

namespace bifocal::ops {
namespace {

uint32_t load_u32(const uint8_t* p) {
    return p[0] | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]) << 16 |
           static_cast<uint32_t>(p[3]) << 24;
}

// Where the parts of one row go inside a block of 16 rows.

// 32 codes of 4 bits whose byte j holds columns j and j + 16, as 16 bytes.
void place_split_nibbles(const uint8_t* nibbles, int row, uint8_t* codes) {
    for (int j = 0; j < 4; ++j) std::memcpy(codes + 64 * j + 4 * row, nibbles + 4 * j, 4);
}
// The low 4 bits of any 32 codes.
void place_nibbles(const uint8_t* q, int row, uint8_t* codes) {
    for (int i = 0; i < 16; ++i) {
        codes[64 * (i / 4) + 4 * row + i % 4] =
            static_cast<uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4);
    }
}
void place_fifths(uint32_t bits, int row, uint8_t* fifths) {
    for (int g = 0; g < 8; ++g) {
        fifths[8 * g + row / 2] |= static_cast<uint8_t>((bits >> (4 * g) & 15) << (4 * (row % 2)));
    }
}
void place_pairs(const uint8_t* q, int row, uint8_t* pairs) {
    for (int i = 0; i < 32; ++i) {
        const int g = i / 4;
        pairs[64 * (g / 4) + 4 * row + i % 4] |= static_cast<uint8_t>((q[i] >> 4) << (2 * (g % 4)));
    }
}
void place_u16(const uint8_t* from, int row, uint8_t* to) {
    std::memcpy(to + 2 * row, from, 2);
}

void pack_q8_0(const uint8_t* b, int row, uint8_t* unit) {
    for (int i = 0; i < 32; ++i) {
        unit[64 * (i / 4) + 4 * row + i % 4] = static_cast<uint8_t>(b[2 + i] ^ 0x80);
    }
    place_u16(b, row, unit + 512);
}

void pack_k(const uint8_t* b, int row, bool five_bits, uint8_t* unit) {
    place_u16(b, row, unit);
    place_u16(b + 2, row, unit + 32);
    const int step = five_bits ? 352 : 288;
    for (int j = 0; j < 8; ++j) {
        uint8_t* p = unit + 64 + step * j;
        const uint8_t* nibbles = b + (five_bits ? 48 : 16) + 32 * (j / 2);
        uint8_t q[32];
        uint32_t fifths = 0;
        for (int l = 0; l < 32; ++l) {
            q[l] = static_cast<uint8_t>(nibbles[l] >> (4 * (j & 1)) & 15);
            if (five_bits) fifths |= static_cast<uint32_t>(b[16 + l] >> j & 1) << l;
        }
        place_nibbles(q, row, p);
        p += 256;
        if (five_bits) {
            place_fifths(fifths, row, p);
            p += 64;
        }
        const ScaleMin s = scale_min_k(b + 4, j);
        p[row] = static_cast<uint8_t>(s.scale);
        p[16 + row] = static_cast<uint8_t>(s.min);
    }
}

void pack_q6_k(const uint8_t* b, int row, uint8_t* unit) {
    place_u16(b + 208, row, unit);
    for (int j = 0; j < 8; ++j) {
        uint8_t* p = unit + 32 + 416 * j;
        const int half = j / 4;
        const int k = j % 4;
        const uint8_t* low = b + 64 * half + 32 * (k & 1);
        const uint8_t* high = b + 128 + 32 * half;
        uint8_t q[32];
        for (int l = 0; l < 32; ++l) {
            q[l] = static_cast<uint8_t>((low[l] >> (k < 2 ? 0 : 4) & 15) | (high[l] >> (2 * k) & 3)
                                                                               << 4);
        }
        place_nibbles(q, row, p);
        place_pairs(q, row, p + 256);
        p[384 + row] = b[192 + 2 * j];
        p[400 + row] = b[192 + 2 * j + 1];
    }
}

void pack_unit(Packing packing, const uint8_t* b, int row, uint8_t* unit) {
    switch (packing) {
        case Packing::q4_0:
            place_split_nibbles(b + 2, row, unit);
            place_u16(b, row, unit + 256);
            return;
        case Packing::q4_1:
            place_split_nibbles(b + 4, row, unit);
            place_u16(b, row, unit + 256);
            place_u16(b + 2, row, unit + 288);
            return;
        case Packing::q5_0:
            place_split_nibbles(b + 6, row, unit);
            place_fifths(load_u32(b + 2), row, unit + 256);
            place_u16(b, row, unit + 320);
            return;
        case Packing::q5_1:
            place_split_nibbles(b + 8, row, unit);
            place_fifths(load_u32(b + 4), row, unit + 256);
            place_u16(b, row, unit + 320);
            place_u16(b + 2, row, unit + 352);
            return;
        case Packing::q8_0:
            pack_q8_0(b, row, unit);
            return;
        case Packing::mxfp4: {
            place_split_nibbles(b + 1, row, unit);
            const uint16_t scale = f32_to_bf16(mxfp4_half_scale(b[0]));
            std::memcpy(unit + 256 + 2 * row, &scale, sizeof scale);
            return;
        }
        case Packing::q4_k:
            pack_k(b, row, false, unit);
            return;
        case Packing::q5_k:
            pack_k(b, row, true, unit);
            return;
        case Packing::q6_k:
            pack_q6_k(b, row, unit);
            return;
    }
}

}  // namespace

std::optional<Packing> packing_of(DType dtype) {
    switch (dtype) {
        case DType::q4_0:
            return Packing::q4_0;
        case DType::q4_1:
            return Packing::q4_1;
        case DType::q5_0:
            return Packing::q5_0;
        case DType::q5_1:
            return Packing::q5_1;
        case DType::q8_0:
            return Packing::q8_0;
        case DType::mxfp4:
            return Packing::mxfp4;
        case DType::q4_k:
            return Packing::q4_k;
        case DType::q5_k:
            return Packing::q5_k;
        case DType::q6_k:
            return Packing::q6_k;
        default:
            return std::nullopt;
    }
}

int64_t panel_bytes(DType dtype, int64_t n_in) {
    if (const auto packing = packing_of(dtype)) {
        const int i = static_cast<int>(*packing);
        return n_in / (kBlock * kUnitBlocks[i]) * kUnitBytes[i];
    }
    return kPanelRows * dtype_bytes(dtype, n_in);
}

void pack_panel(const Tensor& weight, int64_t row, std::span<std::byte> out) {
    const int64_t n_in = weight.shape[1];
    BIFOCAL_CHECK(static_cast<int64_t>(out.size()) == panel_bytes(weight.dtype, n_in),
                  "panel of {} bytes, expected {}", out.size(), panel_bytes(weight.dtype, n_in));
    const auto n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, weight.shape[0] - row));
    std::memset(out.data(), 0, out.size());
    auto* to = reinterpret_cast<uint8_t*>(out.data());
    const auto* from = reinterpret_cast<const uint8_t*>(weight.bytes.data());
    from += row * weight.row_bytes();

    const DTypeInfo& info = dtype_info(weight.dtype);
    if (const auto packing = packing_of(weight.dtype)) {
        const int unit_bytes = kUnitBytes[static_cast<int>(*packing)];
        const int64_t n_units = n_in / info.block_elems;
        for (int r = 0; r < n_rows; ++r) {
            for (int64_t u = 0; u < n_units; ++u, from += info.block_bytes) {
                pack_unit(*packing, from, r, to + u * unit_bytes);
            }
        }
        return;
    }
    const auto size = static_cast<size_t>(info.block_bytes);
    for (int r = 0; r < n_rows; ++r) {
        for (int64_t k = 0; k < n_in; ++k, from += size) {
            std::memcpy(to + static_cast<size_t>(16 * k + r) * size, from, size);
        }
    }
}

}  // namespace bifocal::ops
