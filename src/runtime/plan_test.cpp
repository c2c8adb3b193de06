// The planner against the articles' table, and against what is really allocated.
#include "runtime/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mixers/shared/rule_names.h"
#include "model/shapes.h"
#include "runtime/budget.h"
#include "runtime/testing/layouts.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr const char* kFiveShapes[] = {"qwen3-4b", "qwen3.5-4b", "llama-3.1-8b", "smollm2-135m",
                                       "qwen2.5-0.5b"};

ModelSpec shape(const char* name) {
    auto spec = spec_of_shape(name);
    EXPECT_TRUE(spec.ok()) << name;
    return *std::move(spec);
}

StateOptions options_for(const ModelSpec& model, DType kv_dtype = DType::bf16) {
    return {model.context_length, kv_dtype};
}

PlanBudget tokens_of(const ModelSpec& model, int64_t tokens) {
    const auto budget = budget_of_tokens(model, options_for(model), tokens);
    EXPECT_TRUE(budget.ok());
    return *budget;
}

LayoutPlan planned(const ModelSpec& model, const char* layout, const PlanBudget& budget) {
    const auto mixer = parse_mixer_spec(layout);
    EXPECT_TRUE(mixer.ok()) << layout;
    auto plan = plan_layout(model, options_for(model), *mixer, budget);
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return *std::move(plan);
}

// One line of the articles' table at 576 tokens; windows count the matrices alone.
struct Row {
    const char* shape;
    int64_t token_bytes;  // of a layer
    int64_t window_kv, window_q;
    int64_t fitted_kv, fitted_q;  // with normalisers and stabilisers counted; 0: none fits
    int64_t layer_budget, budget;
};

constexpr Row kTable[] = {
    {"qwen3-4b", 4096, 448, 64, 446, 59, 9 * kMiB / 4, 81 * kMiB},
    {"qwen3.5-4b", 4096, 320, -448, 318, 0, 9 * kMiB / 4, 72 * kMiB},
    {"llama-3.1-8b", 4096, 448, 64, 446, 59, 9 * kMiB / 4, 72 * kMiB},
    {"smollm2-135m", 768, 512, 384, 510, 380, 432 * 1024, 13'271'040},  // 12.66 MiB
};

TEST(Plan, TheTableOfTheArticles) {
    for (const Row& row : kTable) {
        SCOPED_TRACE(row.shape);
        const ModelSpec model = shape(row.shape);
        const auto n_layers = std::ssize(model.layers);
        const PlanBudget budget = tokens_of(model, 576);
        EXPECT_EQ(budget.bytes, row.budget);
        EXPECT_EQ(budget.bytes, row.layer_budget * n_layers);
        EXPECT_EQ(budget.token_bytes, row.token_bytes * n_layers);

        const LayoutPlan window = planned(model, "sliding_window", budget);
        EXPECT_EQ(window.window, 576);
        EXPECT_EQ(window.window_counting_states, 576);
        EXPECT_EQ(window.bytes(), row.budget);
        const LayoutPlan sinks = planned(model, "sliding_window:sink_tokens=4", budget);
        EXPECT_EQ(sinks.window, 572);
        EXPECT_EQ(sinks.window_counting_states, 572);

        const LayerContext& layer = model.layers[0].context;
        const LayoutPlan kv = planned(model, "bifocal:far=mlstm,state_heads=kv", budget);
        EXPECT_EQ(kv.state_tokens, layer.head_dim);
        EXPECT_EQ(kv.window_counting_states, row.window_kv);
        EXPECT_EQ(kv.window, row.fitted_kv);
        EXPECT_TRUE(kv.fits());
        const LayoutPlan q = planned(model, "bifocal:far=mlstm,state_heads=q", budget);
        EXPECT_EQ(q.state_tokens, layer.head_dim * layer.n_heads / layer.n_kv_heads);
        EXPECT_EQ(q.window_counting_states, row.window_q);
        EXPECT_EQ(q.fits(), row.fitted_q > 0);
        EXPECT_EQ(q.window, std::max<int64_t>(1, row.fitted_q));
        EXPECT_EQ(q.missing_bytes == 0, q.fits());
        EXPECT_EQ(q.missing_bytes, std::max<int64_t>(0, q.bytes() - row.budget));
    }
}

TEST(Plan, HowMuchIsMissing) {
    const ModelSpec model = shape("qwen3.5-4b");
    const LayoutPlan plan =
        planned(model, "bifocal:far=mlstm,state_heads=q", tokens_of(model, 576));
    // A token of window, 1024 of states, 4 of normalisers, and a line of stabilisers.
    EXPECT_EQ(plan.layer.normalisers, 4 * 4096);
    EXPECT_EQ(plan.layer.stabilisers, 16 * 4);
    EXPECT_EQ(plan.missing_bytes, 32 * ((1 + 1024 + 4 - 576) * 4096 + 64));
    EXPECT_EQ(plan.missing_tokens, 1 + 1024 + 4 - 576 + 1);
    EXPECT_TRUE(planned(model, "bifocal:far=mlstm,state_heads=q", tokens_of(model, 1030)).fits());
    EXPECT_FALSE(planned(model, "bifocal:far=mlstm,state_heads=q", tokens_of(model, 1029)).fits());
}

TEST(Plan, PartsAreCountedApart) {
    const ModelSpec model = shape("smollm2-135m");
    const LayoutPlan kda = planned(model, "linear:rule=kda", tokens_of(model, 576));
    EXPECT_EQ(kda.layer.states, 9 * 64 * 64 * 4);
    EXPECT_EQ(kda.layer.conv_tails, 3 * (9 + 3 + 3) * 64 * 4);
    EXPECT_EQ(kda.layer.keys_values + kda.layer.normalisers + kda.layer.stabilisers, 0);
    EXPECT_EQ(kda.window, 0);
    EXPECT_EQ(kda.window_counting_states, 576 - 192);
    const LayoutPlan kv =
        planned(model, "bifocal:far=mlstm,window=100,sink_tokens=4", tokens_of(model, 576));
    EXPECT_EQ(kv.layer.keys_values, 104 * 768);
    EXPECT_EQ(kv.layer.normalisers, 3 * 64 * 4);
    EXPECT_EQ(kv.layer.stabilisers, 3 * 4);
    EXPECT_EQ(kv.layer.padding, 64 - 3 * 4);
    EXPECT_EQ(kv.layer.others, 0);
    EXPECT_EQ(kv.window, 100);  // said, so it stays
    EXPECT_EQ(kv.window_counting_states, 576 - 64 - 4);
    EXPECT_EQ(kv.bytes(), 30 * kv.layer.total());
}

// What articles compare, and whatever else there is: every rule alone and beside a window.
std::vector<MixerSpec> all_layouts(const ModelSpec& model) {
    std::vector<MixerSpec> layouts = standard_layouts();
    for (MixerSpec& mixer : testing::every_mixer(model.layers[0].context, 9)) {
        mixer.options.erase("window");  // the largest that fits
        const auto same = [&](const MixerSpec& other) {
            return other.kind == mixer.kind && other.options == mixer.options;
        };
        if (std::ranges::none_of(layouts, same)) layouts.push_back(std::move(mixer));
    }
    return layouts;
}

// Every layout as planned for 576 tokens, and as allocated.
void check_all(const ModelSpec& model, const StateOptions& options) {
    const auto budget = budget_of_tokens(model, options, 576);
    ASSERT_TRUE(budget.ok());
    for (const MixerSpec& mixer : all_layouts(model)) {
        SCOPED_TRACE(model.family + " " + mixer.to_string());
        const auto plan = plan_layout(model, options, mixer, *budget);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        const Status status = check_allocation(model, options, *plan);
        EXPECT_TRUE(status.ok()) << status.error().message();
        // Fields of the standard layouts have lines of their own.
        const auto standard = standard_layouts();
        if (std::ranges::find(standard, mixer.kind, &MixerSpec::kind) != standard.end()) {
            EXPECT_EQ(plan->layer.others, 0);
        }
        EXPECT_EQ(plan->fits(), plan->bytes() <= budget->bytes);
        if (plan->window == 0 || !plan->fits()) continue;
        // The window is the largest: one token more is too many.
        MixerSpec wider = plan->mixer;
        wider.options["window"] = plan->window + 1;
        const auto bytes = layout_bytes(model, wider, options);
        ASSERT_TRUE(bytes.ok());
        EXPECT_GT(*bytes, budget->bytes);
    }
}

TEST(Plan, EveryLayoutTakesWhatWasPlannedToTheByte) {
    EXPECT_GE(standard_layouts().size(), 18u);
    for (const char* name : kFiveShapes) {
        const ModelSpec model = shape(name);
        const auto layouts = all_layouts(model);
        for (const std::string& rule : linear_rule_names()) {
            const auto has = [&](const char* option) {
                return std::ranges::any_of(layouts, [&](const MixerSpec& mixer) {
                    return mixer.options.value(option, "") == rule;
                });
            };
            EXPECT_TRUE(has("rule") && has("far")) << rule;
        }
        check_all(model, {576, DType::bf16});
    }
    const ModelSpec small = shape("smollm2-135m");
    check_all(small, {576, DType::f32});
}

TEST(Plan, BytesDoNotDependOnTheLength) {
    for (const char* name : kFiveShapes) {
        const ModelSpec model = shape(name);
        for (MixerSpec mixer : all_layouts(model)) {
            if (mixer.kind == "full_attention") continue;  // its length is its size
            if (!layout_bytes(model, mixer, {1, DType::bf16}).ok()) mixer.options["window"] = 37;
            const auto at = [&](int64_t length) {
                const auto bytes = layout_bytes(model, mixer, {length, DType::bf16});
                EXPECT_TRUE(bytes.ok());
                return *bytes;
            };
            EXPECT_EQ(at(1), at(1'000'000)) << name << " " << mixer.to_string();
        }
    }
}

TEST(Plan, AnotherNumberOfBytesIsAnError) {
    const ModelSpec model = shape("smollm2-135m");
    LayoutPlan plan = planned(model, "bifocal:far=mlstm", tokens_of(model, 100));
    ASSERT_TRUE(check_allocation(model, options_for(model), plan).ok());
    plan.sequence.states += 4;
    const Status status = check_allocation(model, options_for(model), plan);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message(), HasSubstr("other bytes than planned"));
    EXPECT_THAT(status.error().message(), HasSubstr("far=mlstm"));
}

TEST(Plan, WindowsEndAtTheTrainedLength) {
    const ModelSpec model = shape("smollm2-135m");
    const PlanBudget budget = tokens_of(model, 20'000);
    const LayoutPlan plan = planned(model, "sliding_window:sink_tokens=4", budget);
    EXPECT_EQ(plan.window, 8192 - 4);
    EXPECT_EQ(plan.window_counting_states, 8192 - 4);
    EXPECT_TRUE(plan.is_longest);
    EXPECT_FALSE(planned(model, "sliding_window", tokens_of(model, 576)).is_longest);
}

TEST(Plan, SmallLayersWithPadding) {
    const ModelSpec model = testing::tiny_model("full").decoder.spec;
    for (const int64_t tokens : {1, 5, 33}) {
        const PlanBudget budget = tokens_of(model, tokens);
        EXPECT_EQ(budget.tokens, tokens);
        const LayoutPlan plan = planned(model, "sliding_window", budget);
        EXPECT_TRUE(plan.fits());
        EXPECT_GE(plan.window, tokens);
        EXPECT_LE(plan.bytes(), budget.bytes);
    }
}

TEST(Plan, TheFlawIsNamedNotTheMissingWindow) {
    const ModelSpec model = shape("smollm2-135m");
    const PlanBudget budget = tokens_of(model, 100);
    const std::pair<const char*, const char*> cases[] = {
        {"bifocal:far=otter", "option 'far'"},
        {"sliding_window:windw=3", "unknown option 'windw'"},
        {"linear:rule=gdn,window=3", "unknown option 'window'"},
        {"sliding_window:window=0", "option 'window'"},
        {"sliding_window:sink_tokens=-1", "option 'sink_tokens'"},
        {"sliding_window:sink_tokens=9223372036854775807", "option 'sink_tokens'"},
        {"linear:rule=gdn,form=qwen,key_heads=4,value_heads=6,key_dim=8,value_dim=8", "layer 0"},
    };
    for (const auto& [layout, words] : cases) {
        const auto mixer = parse_mixer_spec(layout);
        ASSERT_TRUE(mixer.ok());
        const auto plan = plan_layout(model, options_for(model), *mixer, budget);
        ASSERT_FALSE(plan.ok()) << layout;
        EXPECT_THAT(plan.error().message(), HasSubstr(words));
    }
}

TEST(Shapes, AreByName) {
    for (const ModelShape& known : model_shapes()) {
        const auto spec = spec_of_shape(known.name);
        ASSERT_TRUE(spec.ok());
        EXPECT_EQ(std::ssize(spec->layers), known.n_layers);
        EXPECT_EQ(known.n_heads % known.n_kv_heads, 0) << known.name;
        EXPECT_TRUE(layout_bytes(*spec, {"full_attention"}, {1, DType::bf16}).ok());
    }
    const auto unknown = spec_of_shape("qwen3-4");
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().kind, ErrorKind::usage);
    EXPECT_THAT(unknown.error().message(), HasSubstr("qwen3-4b, "));
}

}  // namespace
}  // namespace bifocal
