// One million tokens through one sequence.
#include <gtest/gtest.h>

#include "runtime/testing/memory_use.h"

namespace bifocal {
namespace {

TEST(Memory, EqualAtToken1AndAtToken1000000) {
    const testing::Growth growth = testing::decode_many(1'000'000);
    EXPECT_EQ(growth.position, 1'000'000);
    EXPECT_EQ(growth.state_bytes_begin, growth.state_bytes_end);
    EXPECT_LT(growth.resident_bytes, 1 << 20);
    RecordProperty("state_bytes", std::to_string(growth.state_bytes_end));
    RecordProperty("resident_growth_bytes", std::to_string(growth.resident_bytes));
}

}  // namespace
}  // namespace bifocal
