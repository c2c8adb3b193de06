#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bifocal {
namespace {

TEST(Half, EveryValueSurvivesTheRoundTrip) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float x = f16_to_f32(static_cast<uint16_t>(bits));
        if (std::isnan(x)) {
            EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(x))));
        } else {
            ASSERT_EQ(f32_to_f16(x), bits);
        }
    }
}

TEST(Half, RoundsToNearestEvenBetweenNeighbours) {
    for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
        const float low = f16_to_f32(static_cast<uint16_t>(bits));
        const float high = f16_to_f32(static_cast<uint16_t>(bits + 1));
        const float middle = 0.5f * (low + high);  // exact: both have at most 11 significant bits
        ASSERT_EQ(f32_to_f16(middle), (bits & 1) ? bits + 1 : bits);
        ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
        ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e30f)), bits + 1);
    }
    EXPECT_EQ(f32_to_f16(65519.9f), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNaN) {
    for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
        const float low = bf16_to_f32(static_cast<uint16_t>(bits));
        ASSERT_EQ(f32_to_bf16(low), bits);
        const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
        ASSERT_EQ(f32_to_bf16(middle), (bits & 1) ? bits + 1 : bits);
    }
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DTypeTable, NamesAreUniqueAndBlocksFill) {
    for (int i = 0; i <= static_cast<int>(DType::mxfp4); ++i) {
        const auto dtype = static_cast<DType>(i);
        EXPECT_EQ(dtype_from_name(dtype_info(dtype).name), dtype);
        EXPECT_EQ(dtype_bytes(dtype, 512),
                  512 / dtype_info(dtype).block_elems * dtype_info(dtype).block_bytes);
    }
    EXPECT_FALSE(dtype_from_name("q9_9").has_value());
}

}  // namespace
}  // namespace bifocal
