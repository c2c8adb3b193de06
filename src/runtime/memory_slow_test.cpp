// One million tokens through one sequence, with a ring, a state, and both.
#include <gtest/gtest.h>

#include "runtime/testing/memory_use.h"

namespace bifocal {
namespace {

TEST(Memory, EqualAtToken1AndAtToken1000000) {
    for (const char* attention : {"sliding_window:window=12,sink_tokens=4", "linear:rule=gdn",
                                  "bifocal:window=12,far=mlstm"}) {
        SCOPED_TRACE(attention);
        const testing::Growth growth = testing::decode_many(attention, 1'000'000);
        EXPECT_EQ(growth.position, 1'000'000);
        EXPECT_EQ(growth.state_bytes_begin, growth.state_bytes_end);
        EXPECT_LT(growth.resident_bytes, 1 << 20);
    }
}

}  // namespace
}  // namespace bifocal
