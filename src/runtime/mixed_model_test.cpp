// Models that hold linear layers of their own beside softmax ones: sessions, snapshots and plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bifocal/model.h"
#include "model/shapes.h"
#include "runtime/budget.h"
#include "runtime/drift.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "runtime/snapshot.h"

namespace bifocal {
namespace {

struct Layout {
    const char* name;
    const char* checkpoint;
    const char* attention;
};

// The checkpoint's own layers, and those in place of its softmax ones that need no new weights.
const Layout kLayouts[] = {
    {"qwen3_5", "qwen3_5", ""},
    {"qwen3_5_gguf", "qwen3_5/model.gguf", ""},
    {"qwen3_5_window", "qwen3_5", "sliding_window:window=9,sink_tokens=2"},
    {"qwen3_5_bifocal", "qwen3_5", "bifocal:window=9,far=liger,mix=half"},
    {"qwen3_next", "qwen3_next", ""},
    {"qwen3_next_window", "qwen3_next", "sliding_window:window=11"},
    {"kimi_linear", "kimi_linear", ""},
    {"kimi_linear_window", "kimi_linear", "sliding_window:window=9,sink_tokens=2"},
};

std::vector<int32_t> some_tokens(int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 37 + 5) % 90));
    return tokens;
}

class MixedModel : public ::testing::TestWithParam<Layout> {
  protected:
    MixedModel()
        : model_(Model::load(std::string(BIFOCAL_SOURCE_DIR "/tests/golden/models/") +
                                 GetParam().checkpoint,
                             {.attention = GetParam().attention, .exact = true})
                     .value()),
          engine_(Engine::make(model_, {.kv_type = KvType::f32,
                                        .capacity = 64,
                                        .max_sessions = 3,
                                        .max_batch = 2,
                                        .chunk = 48,
                                        .n_threads = 2})
                      .value()) {}

    std::vector<float> logits_of(Session& session, std::span<const int32_t> tokens, int64_t chunk) {
        for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
            const size_t n = std::min(tokens.size() - at, static_cast<size_t>(chunk));
            EXPECT_TRUE(session.prefill(tokens.subspan(at, n)).ok());
        }
        return {session.logits().begin(), session.logits().end()};
    }
    static void expect_close(std::span<const float> a, std::span<const float> b) {
        Drift drift;
        drift.add(a, b);
        EXPECT_EQ(drift.not_finite, 0);
        EXPECT_LT(drift.max_abs, 1e-4);
    }

    Model model_;
    Engine engine_;
};
INSTANTIATE_TEST_SUITE_P(Layouts, MixedModel, ::testing::ValuesIn(kLayouts),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(MixedModel, ChunksAndSingleTokensAgree) {
    const std::vector<int32_t> tokens = some_tokens(45);
    Session whole = engine_.new_session().value();
    const std::vector<float> expected = logits_of(whole, tokens, 45);
    for (const int64_t chunk : {1, 7, 16}) {
        Session session = engine_.new_session().value();
        expect_close(logits_of(session, tokens, chunk), expected);
    }
}

TEST_P(MixedModel, ABatchEqualsSingleSequences) {
    const std::vector<int32_t> tokens = some_tokens(30);
    Session alone = engine_.new_session().value();
    logits_of(alone, std::span(tokens).first(20), 20);
    Session one = engine_.new_session().value(), other = engine_.new_session().value();
    logits_of(one, std::span(tokens).first(20), 20);
    logits_of(other, std::span(tokens).subspan(3, 11), 11);
    for (size_t i = 20; i < tokens.size(); ++i) {
        Session* const batch[] = {&other, &one};
        const int32_t step[] = {tokens[i - 7], tokens[i]};
        ASSERT_TRUE(engine_.step(batch, step).ok());
        ASSERT_TRUE(alone.decode(tokens[i]).ok());
        expect_close(one.logits(), alone.logits());
    }
}

TEST_P(MixedModel, ASnapshotGoesOnBitByBit) {
    const std::vector<int32_t> tokens = some_tokens(40);
    Session first = engine_.new_session().value();
    logits_of(first, std::span(tokens).first(25), 25);
    const std::vector<std::byte> saved = encode_snapshot(first, {});
    Session second = engine_.new_session().value();
    const auto loaded = decode_snapshot(second, saved, "snapshot");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    for (size_t i = 25; i < tokens.size(); ++i) {
        ASSERT_TRUE(first.decode(tokens[i]).ok());
        ASSERT_TRUE(second.decode(tokens[i]).ok());
        EXPECT_TRUE(std::ranges::equal(first.logits(), second.logits())) << i;
    }
    // Another layout of the same weights has another state.
    const std::string folder =
        std::string(BIFOCAL_SOURCE_DIR "/tests/golden/models/") + GetParam().checkpoint;
    const Model wider =
        Model::load(folder, {.attention = "sliding_window:window=13", .exact = true}).value();
    Engine engine = Engine::make(wider, {.kv_type = KvType::f32, .capacity = 64}).value();
    Session foreign = engine.new_session().value();
    EXPECT_FALSE(decode_snapshot(foreign, saved, "snapshot").ok());
}

// What is planned without weights is what the loaded model takes.
TEST_P(MixedModel, NativeStatesCountInThePlan) {
    const StateOptions options{64, DType::f32};
    const auto bytes = static_cast<int64_t>(model_.decoder().plan_states(options).bytes);
    for (const LayerSpec& layer : model_.spec().layers) {
        if (layer.is_native_linear) continue;
        EXPECT_EQ(layout_bytes(model_.spec(), layer.mixer, options).value(), bytes);
    }
    const auto budget = budget_of_tokens(model_.spec(), options, 32);
    ASSERT_TRUE(budget.ok());
    const auto plan = plan_layout(model_.spec(), options, {"sliding_window"}, *budget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->window, 32);
    EXPECT_EQ(plan->window_counting_states, 32);
    EXPECT_EQ(plan->state_tokens, 0);
    EXPECT_GT(plan->native.states, 0);
    EXPECT_TRUE(check_allocation(model_.spec(), options, *plan).ok());
}

// Three layers of four are Gated DeltaNet: 32 states of 128 x 128 and the tail of a convolution.
TEST(MixedPlan, ThePublicShapes) {
    const ModelSpec model = spec_of_shape("qwen3.5-4b-native").value();
    const StateOptions options{model.context_length, DType::bf16};
    const PlanBudget budget = budget_of_tokens(model, options, 576).value();
    constexpr int64_t kState = 32 * 128 * 128 * 4, kTail = 3 * (2 * 2048 + 4096) * 4;
    EXPECT_EQ(budget.token_bytes, 8 * 4096);
    EXPECT_EQ(budget.bytes, 576 * 8 * 4096 + 24 * (kState + kTail));
    EXPECT_EQ(budget_of_bytes(model, options, budget.bytes)->tokens, 576);
    EXPECT_EQ(budget_of_bytes(model, options, 24 * kState)->tokens, 0);
    const LayoutPlan plan =
        plan_layout(model, options, {"sliding_window", {{"sink_tokens", 4}}}, budget).value();
    EXPECT_EQ(plan.window, 572);
    EXPECT_EQ(plan.native.total(), 24 * (kState + kTail));
    EXPECT_EQ(plan.layer.total(), 576 * 4096);
    EXPECT_EQ(plan.bytes(), budget.bytes);
    const LayoutPlan both =
        plan_layout(model, options, {"bifocal", {{"far", "mlstm"}}}, budget).value();
    EXPECT_EQ(both.window_counting_states, 320);  // as where every layer is softmax
}

TEST(MixedPlan, AllLinearLeavesNothingToPlan) {
    ModelSpec model = spec_of_shape("qwen3.5-4b-native").value();
    model.layers.resize(3);
    const auto budget = budget_of_bytes(model, {100, DType::bf16}, 1 << 30);
    ASSERT_FALSE(budget.ok());
    EXPECT_THAT(budget.error().message(), ::testing::HasSubstr("every layer is linear"));
}

}  // namespace
}  // namespace bifocal
