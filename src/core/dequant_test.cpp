// Decoders and encoders against the PyPI package gguf (tools/golden/dequant.py), bit by bit.
#include "core/dequant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/quantise.h"
#include "core/testing/random_blocks.h"

namespace bifocal {
namespace {

const nlohmann::json& golden() {
    static const nlohmann::json json = nlohmann::json::parse(
        std::ifstream(BIFOCAL_SOURCE_DIR "/tests/golden/dequant/blocks.json"));
    return json;
}

std::vector<std::byte> from_hex(const std::string& hex) {
    std::vector<std::byte> bytes(hex.size() / 2);
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
    return bytes;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

const DType kQuantised[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                            DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4};

TEST(Dequant, equals_gguf_bit_by_bit) {
    size_t types = 0;
    for (const auto& entry : golden().at("decoded")) {
        const auto dtype = dtype_from_name(entry.at("type").get<std::string>());
        ASSERT_TRUE(dtype);
        const auto blocks = from_hex(entry.at("blocks"));
        const auto expected = floats_of(from_hex(entry.at("values")));
        std::vector<float> actual(expected.size());
        dequantise_row(*dtype, blocks.data(), actual);
        for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
                << dtype_info(*dtype).name << " element " << i;
        }
        ++types;
    }
    EXPECT_EQ(types, std::size(kQuantised));
}

TEST(Quantise, equals_gguf_byte_by_byte) {
    size_t types = 0;
    for (const auto& entry : golden().at("encoded")) {
        const auto dtype = dtype_from_name(entry.at("type").get<std::string>());
        ASSERT_TRUE(dtype);
        const auto values = floats_of(from_hex(entry.at("values")));
        EXPECT_EQ(quantise(*dtype, values), from_hex(entry.at("blocks")))
            << dtype_info(*dtype).name;
        ++types;
    }
    EXPECT_EQ(types, 5u);
}

// A step of the type's grid, relative to the largest magnitude, bounds the error; the 16-bit scale
// adds its own rounding.
TEST(Quantise, every_type_comes_back_close) {
    const std::pair<DType, float> steps[] = {
        {DType::f32, 0.0f},         {DType::f64, 0.0f},       {DType::f16, 0.5e-3f},
        {DType::bf16, 4e-3f},       {DType::q4_0, 1.0f / 8},  {DType::q4_1, 1.0f / 14},
        {DType::q5_0, 1.0f / 16},   {DType::q5_1, 1.0f / 30}, {DType::q8_0, 4.5e-3f},
        {DType::q4_k, 0.1f},        {DType::q5_k, 0.06f},     {DType::q6_k, 0.02f},
        {DType::mxfp4, 1.0f / 3.5f}};
    std::mt19937_64 rng(7);
    std::vector<float> values(512);
    for (float& x : values) x = testing::random_unit(rng);
    for (int i = 0; i < 256; ++i) values[i] *= 0.01f;
    for (int i = 32; i < 64; ++i) values[i] = 0.0f;
    for (const auto& [dtype, step] : steps) {
        const auto bytes = quantise(dtype, values);
        std::vector<float> back(values.size());
        dequantise_row(dtype, bytes.data(), back);
        for (size_t i = 0; i < values.size(); ++i) {
            const float peak = i < 256 ? 0.01f : 1.0f;
            EXPECT_LE(std::fabs(back[i] - values[i]), step * peak)
                << dtype_info(dtype).name << " element " << i;
        }
    }
}

TEST(Dequant, unaligned_rows_and_single_blocks_decode_alike) {
    std::mt19937_64 rng(11);
    for (DType dtype : kQuantised) {
        const int n = 4 * dtype_info(dtype).block_elems;
        auto blocks = testing::random_blocks(dtype, n, rng);
        std::vector<float> whole(n), piece(dtype_info(dtype).block_elems);
        dequantise_row(dtype, blocks.data(), whole);
        blocks.insert(blocks.begin(), std::byte{0x5a});
        for (int i = 0; i < 4; ++i) {
            dequantise_row(dtype, blocks.data() + 1 + i * dtype_info(dtype).block_bytes, piece);
            EXPECT_TRUE(
                std::equal(piece.begin(), piece.end(), whole.begin() + i * std::ssize(piece)));
        }
    }
}

TEST(Dequant, random_blocks_are_sane) {
    std::mt19937_64 rng(13);
    for (int d = 0; d <= static_cast<int>(DType::mxfp4); ++d) {
        const auto dtype = static_cast<DType>(d);
        if (!is_real(dtype)) continue;
        const auto blocks = testing::random_blocks(dtype, 4096, rng);
        std::vector<float> values(4096);
        dequantise_row(dtype, blocks.data(), values);
        float peak = 0.0f;
        for (float x : values) {
            ASSERT_TRUE(std::isfinite(x)) << dtype_info(dtype).name;
            peak = std::max(peak, std::fabs(x));
        }
        EXPECT_GT(peak, 0.5f) << dtype_info(dtype).name;
        EXPECT_LT(peak, 10.0f) << dtype_info(dtype).name;
    }
}

TEST(Dequant, mxfp4_exponent_255_is_nan) {
    std::byte block[17]{std::byte{255}};
    std::vector<float> values(32);
    dequantise_row(DType::mxfp4, block, values);
    for (float x : values) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace bifocal
