#include "runtime/round_states.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/testing/tiny_model.h"

namespace bifocal {
namespace {

// A window in FP32 beside a state: the state is rounded, the window is not.
TEST(RoundStates, RoundsLinearStatesAndNothingElse) {
    const auto model = testing::tiny_model("bifocal:window=9,far=mlstm");
    const StatePlan plan = model.decoder.plan_states({1, DType::f32});
    const float value = 1 + 0x1p-8f + 0x1p-20f, rounded = 1 + 0x1p-7f;
    std::vector<float> states(plan.bytes / sizeof(float), value);
    round_states_to_bf16(plan, reinterpret_cast<std::byte*>(states.data()));
    size_t bytes = 0;
    for (size_t i = 0; i < plan.layers.size(); ++i)
        for (const StateField& field : plan.layers[i].fields) {
            const bool is_linear = field.name == "s" || field.name == "n" || field.name == "m";
            EXPECT_EQ(is_linear, field.name != "k" && field.name != "v") << field.name;
            if (is_linear) bytes += field.bytes;
            const size_t begin = (plan.offsets[i] + field.offset) / sizeof(float);
            for (size_t at = begin; at < begin + field.bytes / sizeof(float); ++at)
                ASSERT_EQ(states[at], is_linear ? rounded : value) << field.name;
        }
    EXPECT_GT(bytes, 0u);
    EXPECT_EQ(linear_state_bytes(plan), bytes);
}

TEST(RoundStates, ThereAreNoneInAWindow) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
        const auto model = testing::tiny_model("sliding_window:window=9");
        EXPECT_EQ(linear_state_bytes(model.decoder.plan_states({1, dtype})), 0u);
    }
}

}  // namespace
}  // namespace bifocal
