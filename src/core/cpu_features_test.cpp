#include "core/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bifocal {
namespace {

TEST(CpuFeatures, TheBestAvailableFamilyIsChosen) {
    CpuFeatures cpu;
    EXPECT_EQ(*choose_isa({}, cpu), Isa::portable);
    cpu.avx2 = true;
    EXPECT_EQ(*choose_isa({}, cpu), Isa::avx2);
    cpu.avx_vnni = true;
    EXPECT_EQ(*choose_isa({}, cpu), Isa::avx_vnni);
    cpu.avx512 = cpu.avx512_vnni = true;
    EXPECT_EQ(*choose_isa({}, cpu), Isa::avx512_vnni);
}

TEST(CpuFeatures, AWishIsFollowedOrRefused) {
    CpuFeatures cpu;
    cpu.avx2 = true;
    EXPECT_EQ(*choose_isa("portable", cpu), Isa::portable);
    EXPECT_EQ(*choose_isa("avx2", cpu), Isa::avx2);

    const auto absent = choose_isa("avx512_vnni", cpu);
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.error().kind, ErrorKind::usage);
    EXPECT_THAT(absent.error().message(), ::testing::HasSubstr("expected one of portable, avx2"));

    const auto unknown = choose_isa("sse9", cpu);
    ASSERT_FALSE(unknown.ok());
    EXPECT_THAT(unknown.error().message(), ::testing::HasSubstr("'sse9'"));
}

}  // namespace
}  // namespace bifocal
