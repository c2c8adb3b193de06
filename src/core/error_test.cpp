#include "bifocal/error.h"

#include <gtest/gtest.h>

#include <memory>

namespace bifocal {
namespace {

TEST(Error, MessageIsOneLineWithEmptyPartsLeftOut) {
    EXPECT_EQ((Error{.what = "no such file", .where = "a.gguf"}).message(), "a.gguf: no such file");
    EXPECT_EQ((Error{.what = "version",
                     .where = "a.gguf",
                     .expected = "2 or 3",
                     .got = "9",
                     .hint = "convert it again"})
                  .message(),
              "a.gguf: version: expected 2 or 3, got 9; convert it again");
    EXPECT_EQ((Error{.what = "key", .got = "a\nb\x1b[31m"}).message(), "key: got a?b?[31m");
}

Result<std::unique_ptr<int>> positive(int x) {
    if (x <= 0) return Error{.what = "not positive"};
    return std::make_unique<int>(x);
}

Result<int> sum(int a, int b) {
    BIFOCAL_TRY(const auto first, positive(a));
    BIFOCAL_TRY(const auto second, positive(b));
    return *first + *second;
}

TEST(Result, TryPassesErrorsUpAndMovesValues) {
    EXPECT_EQ(sum(1, 2).value(), 3);
    ASSERT_FALSE(sum(1, -2).ok());
    EXPECT_EQ(sum(1, -2).error().what, "not positive");
}

Status all_positive(int a, int b) {
    BIFOCAL_TRY_STATUS(sum(a, b).ok() ? Status{} : Status{Error{.what = "sum"}});
    return {};
}

TEST(Status, IsOkOrAnError) {
    EXPECT_TRUE(all_positive(1, 1).ok());
    EXPECT_FALSE(all_positive(0, 1).ok());
}

}  // namespace
}  // namespace bifocal
