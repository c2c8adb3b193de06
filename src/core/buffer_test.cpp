#include "core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

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

}  // namespace
}  // namespace bifocal
