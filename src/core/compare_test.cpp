#include "core/testing/compare.h"

#include <gtest/gtest.h>

#include <limits>

namespace bifocal::testing {
namespace {

constexpr int64_t kShape[] = {2, 3};
const std::vector<double> kReference{1, -2, 3, -4, 5, -6};

std::vector<float> with(size_t i, double add) {
    std::vector<float> x(kReference.begin(), kReference.end());
    x[i] += static_cast<float>(add);
    return x;
}

TEST(Compare, AllowsTwiceThePlainErrorAndAFewUlps) {
    EXPECT_TRUE(compare(with(4, 0.019), with(1, 0.01), kReference, kShape).ok);
    EXPECT_FALSE(compare(with(4, 0.021), with(1, 0.01), kReference, kShape).ok);
    EXPECT_TRUE(compare(with(4, 1e-6), with(0, 0), kReference, kShape).ok);
    EXPECT_FALSE(compare(with(4, 3e-6), with(0, 0), kReference, kShape).ok);
}

TEST(Compare, NamesTheWorstCoordinate) {
    const Comparison c = compare(with(4, 1), with(0, 0), kReference, kShape);
    EXPECT_NE(c.message.find("[1, 1]"), std::string::npos) << c.message;
    EXPECT_DOUBLE_EQ(c.fast_error, 1);
}

TEST(Compare, SeesNanAndInfinityFirst) {
    const double inf = std::numeric_limits<double>::infinity();
    std::vector<double> reference = kReference;
    EXPECT_FALSE(compare(with(2, std::nan("")), with(2, inf), reference, kShape).ok);
    EXPECT_FALSE(compare(with(2, inf), with(2, inf), reference, kShape).ok);
    reference[2] = inf;
    EXPECT_TRUE(compare(with(2, inf), with(0, 0), reference, kShape).ok);
    EXPECT_FALSE(compare(with(2, -inf), with(0, 0), reference, kShape).ok);
    reference[2] = std::nan("");
    EXPECT_TRUE(compare(with(2, std::nan("")), with(0, 0), reference, kShape).ok);
}

}  // namespace
}  // namespace bifocal::testing
