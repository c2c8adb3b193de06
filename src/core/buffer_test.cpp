#include "core/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "core/huge_memory.h"

namespace bifocal {
namespace {

TEST(Workspace, HandsOutAlignedArraysAndTakesThemBack) {
    Workspace workspace(1024);
    {
        Workspace::Frame frame(workspace);
        const auto bytes = workspace.take<char>(3);
        const auto floats = workspace.take<float>(17);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment, 0u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.data()) % kAlignment, 0u);
        EXPECT_EQ(floats.size(), 17u);
        EXPECT_EQ(workspace.used(), 64u + 128u);
    }
    EXPECT_EQ(workspace.used(), 0u);
    EXPECT_EQ(workspace.high_water(), 64u + 128u);
}

TEST(WorkspaceDeathTest, GoingOverTheDeclaredSizeAborts) {
    Workspace workspace(128);
    (void)workspace.take<char>(100);
    EXPECT_DEATH((void)workspace.take<char>(1), "workspace of 128 bytes, 128 used, 64 more asked");
}

TEST(Buffer, IsZeroedAlignedAndMovable) {
    Buffer buffer(100);
    for (const std::byte b : buffer.bytes()) EXPECT_EQ(b, std::byte{0});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
    const std::byte* data = buffer.data();
    Buffer moved(std::move(buffer));
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(buffer.size(),
              0u);  // NOLINT(bugprone-use-after-move): the moved-from state is promised
}

TEST(Buffer, LargeOnesStandOnHugePages) {
    for (const size_t bytes : {(size_t{2} << 20) - 1, size_t{2} << 20, (size_t{5} << 20) + 3}) {
        Buffer buffer(bytes);
        const size_t alignment = bytes < size_t{2} << 20 ? kAlignment : size_t{2} << 20;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
        EXPECT_TRUE(
            std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte{}; }));
        buffer.data()[bytes - 1] = std::byte{1};
    }
}

TEST(HugeVector, IsAVectorLikeAnyOther) {
    HugeVector<double> one(1000, 3.0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(one.data()) % kAlignment, 0u);
    const HugeVector<double> copy = one;
    for (int i = 0; i < 5000; ++i) one.push_back(i);
    HugeVector<double> moved = std::move(one);
    moved.assign(copy.begin(), copy.end());
    EXPECT_EQ(moved, copy);
    EXPECT_EQ(HugeVector<double>().data(), nullptr);
}

}  // namespace
}  // namespace bifocal
