#include "core/tensor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/view.h"

namespace bifocal {
namespace {

TEST(Tensor, RowsShareTheBytes) {
    const std::vector<float> values{0, 1, 2, 3, 4, 5};
    const Tensor tensor = make_tensor_f32({3, 2}, values);
    const Tensor part = tensor.rows(1, 3);
    EXPECT_EQ(part.shape, (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(part.bytes.data(), tensor.bytes.data() + 8);
    float last;
    std::memcpy(&last, part.bytes.data() + 12, sizeof last);
    EXPECT_EQ(last, 5.0f);
}

TEST(Tensor, RowsOfAQuantisedTensorAreWholeBlocks) {
    std::byte* data = nullptr;
    const Tensor tensor = make_tensor(DType::q4_1, {5, 64}, &data);
    EXPECT_EQ(tensor.row_bytes(), 40);
    EXPECT_EQ(tensor.rows(2, 3).bytes.data(), data + 80);
}

TEST(Tensor, RowsOfGroupsAreACopyInOrder) {
    const float values[] = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
    const Tensor tensor = make_tensor_f32({6, 2}, values);  // three groups of two rows
    const Tensor second = tensor.rows_of_groups(3, 1, 2);
    EXPECT_EQ(second.shape, (std::vector<int64_t>{3, 2}));
    float kept[6];
    std::memcpy(kept, second.bytes.data(), sizeof kept);
    EXPECT_EQ(std::vector<float>(kept, kept + 6), (std::vector<float>{2, 3, 12, 13, 22, 23}));
}

TEST(View, InnerViewsKeepStrides) {
    float values[24];
    for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    const View<float, 3> all(values, {2, 3, 4});
    EXPECT_EQ(all(1, 2, 3), 23.0f);
    EXPECT_EQ(all[1](2, 0), 20.0f);
    const View<float, 2> columns(values, {6, 2}, {4, 1});
    EXPECT_EQ(columns.row(5)[1], 21.0f);
    const View<const float, 2> read_only = columns;
    EXPECT_EQ(read_only(2, 1), 9.0f);
}

TEST(CheckShapeDeathTest, NamesWhatItExpected) {
    const std::array<int64_t, 3> shape{2, 7, 4};
    EXPECT_DEATH(check_shape("k", shape, {2, 7, 5}), "k is \\[2, 7, 4\\], expected \\[2, 7, 5\\]");
}

}  // namespace
}  // namespace bifocal
