// Tiny random checkpoints of every family against the logits of transformers, written by
// tools/golden/models.py. Exact path, FP32 rings.
#include <gtest/gtest.h>

#include <filesystem>

#include "model/model_spec.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

using testing::Golden;
using testing::golden_of;
using testing::kFolder;
using testing::largest_difference;
using testing::load_exact;

const char* const kCases[] = {
    "llama",
    "llama_tied",
    "llama3_rope",
    "llama_linear_rope",
    "llama_yarn_rope",
    "smollm3",
    "smollm3_layers",
    "mistral",
    "qwen2",
    "qwen2_window",
    "qwen3",
    "phi3",
    "phi3_longrope",
    "gemma3",
    "gpt_oss",
    "gpt_oss_mxfp4",
    "minimax",
    "qwen3_5",
    "qwen3_5_whole",
    "qwen3_next",
    "qwen3_next_experts",
    "kimi_linear",
    "qwen3_next_sparse",
};

class GoldenModel : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, GoldenModel, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(GoldenModel, LogitsEqualTransformers) {
    const Golden golden = golden_of(GetParam());
    const Model model = load_exact(kFolder + GetParam());
    EXPECT_EQ(model.notes(), std::vector<std::string>{});
    const std::vector<float> expected = golden.floats("logits");
    for (const int64_t chunk : {48, 7, 1}) {
        const double difference = largest_difference(
            testing::all_logits(model.decoder(), golden.tokens, chunk), expected);
        EXPECT_LE(difference, 1e-4) << "chunks of " << chunk;
        if (chunk == 48) RecordProperty("largest_difference", std::to_string(difference));
    }
}

TEST_P(GoldenModel, GgufTwinGivesTheSameLogits) {
    const std::string twin = kFolder + GetParam() + "/model.gguf";
    if (!std::filesystem::exists(twin)) return;  // an architecture or a scaling GGUF cannot say
    const Golden golden = golden_of(GetParam());
    const Model model = load_exact(twin);
    EXPECT_EQ(model.notes(), std::vector<std::string>{});
    const double difference = largest_difference(
        testing::all_logits(model.decoder(), golden.tokens, 48), golden.floats("logits"));
    EXPECT_LE(difference, 1e-4);
    const Model folder = load_exact(kFolder + GetParam());
    const double between =
        largest_difference(testing::all_logits(model.decoder(), golden.tokens, 48),
                           testing::all_logits(folder.decoder(), golden.tokens, 48));
    EXPECT_LE(between, 2e-5);
}

TEST(Golden, EveryCaseOnDiskIsTested) {
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        if (!entry.is_directory()) continue;
        const std::string name = entry.path().filename();
        EXPECT_TRUE(std::ranges::find(kCases, name) != std::end(kCases)) << name;
    }
}

// Texts below the original context turn by the short factors.
TEST(Golden, LongropeShortFactors) {
    const Golden golden = golden_of("phi3_longrope");
    const std::vector<float> expected = golden.floats("logits_short");
    const auto n = static_cast<size_t>(18);
    for (const char* file : {"", "/model.gguf"}) {
        const Model model = load_exact(kFolder + "phi3_longrope" + file, {.tokens = 18});
        const auto tokens = std::span(golden.tokens).first(n);
        EXPECT_LE(largest_difference(testing::all_logits(model.decoder(), tokens, 18), expected),
                  1e-4);
    }
}

TEST(Golden, ReplacedLayoutsEqualExplicitMasks) {
    // The learned sinks of a replaced layer are the checkpoint's.
    const std::pair<std::string, std::string> cases[] = {
        {"llama_tied", "window=9"},
        {"llama_tied", "window=6,sink_tokens=3"},
        {"gpt_oss", "window=6,sink_tokens=3,sink=learned"},
        {"qwen3_5", "window=7,sink_tokens=2"},
        {"kimi_linear", "window=7,sink_tokens=2"}};
    for (const auto& [name, layout] : cases) {
        const Golden golden = golden_of(name);
        const Model model = load_exact(kFolder + name, {.attention = "sliding_window:" + layout});
        EXPECT_EQ(model.spec().layers[1].mixer.kind, "sliding_window");
        const std::vector<float> expected = golden.floats("logits " + layout);
        for (const int64_t chunk : {48, 5})
            EXPECT_LE(largest_difference(testing::all_logits(model.decoder(), golden.tokens, chunk),
                                         expected),
                      1e-4)
                << name << ", " << layout << ", chunks of " << chunk;
    }
}

// Sequences of a batch do not see each other, and the last row is the last row.
TEST(Golden, BatchEqualsSingleSequences) {
    for (const std::string name : {"mistral", "gpt_oss_mxfp4"}) {
        const Golden golden = golden_of(name);
        const Model model = load_exact(kFolder + name);
        const Decoder& decoder = model.decoder();
        const int64_t V = decoder.spec.vocab_size, T = 11;
        const StatePlan plan = decoder.plan_states({64, DType::f32});
        ThreadPool pool(2);
        Workspace workspace(decoder.workspace_bytes(plan, 2, T, Step::Logits::last, pool.size()));
        Exec exec{pool, workspace};
        Buffer states[2] = {Buffer(plan.bytes), Buffer(plan.bytes)};
        std::byte* const slots[] = {states[0].data(), states[1].data()};
        for (std::byte* slot : slots) decoder.init_states(plan, slot);

        const std::vector<int32_t> tokens(golden.tokens.begin(), golden.tokens.begin() + 2 * T);
        std::vector<float> logits(static_cast<size_t>(2 * V));
        const int64_t pos[] = {0, 0};
        decoder.forward(
            {View<const int32_t, 2>(tokens.data(), {2, T}), pos, slots, Step::Logits::last}, plan,
            View<float, 2>(logits.data(), {2, V}), exec);
        for (int64_t b = 0; b < 2; ++b) {
            const std::vector<float> alone =
                testing::all_logits(decoder, std::span(tokens).subspan(b * T, T), T);
            for (int64_t v = 0; v < V; ++v)
                EXPECT_EQ(logits[b * V + v], alone[(T - 1) * V + v]) << name;
        }
    }
}

TEST(Golden, PackedExpertsCountAsTheNumbersTheyHold) {
    EXPECT_EQ(load_exact(kFolder + "gpt_oss_mxfp4").info().n_parameters,
              load_exact(kFolder + "gpt_oss_mxfp4/model.gguf").info().n_parameters);
}

// Experts take part in the promise of docs/numerics.md.
TEST(Golden, ChunksOfAnySizeGiveTheSameBits) {
    for (const std::string file : {"gpt_oss", "gpt_oss_mxfp4", "gpt_oss_mxfp4/model.gguf"}) {
        for (const bool exact : {true, false}) {
            const Model model = Model::load(kFolder + file, {.exact = exact}).value();
            const Golden golden = golden_of(file.substr(0, file.find('/')));
            const std::vector<float> whole =
                testing::all_logits(model.decoder(), golden.tokens, 48, 2);
            for (const int64_t chunk : {1, 2, 13})
                EXPECT_EQ(testing::all_logits(model.decoder(), golden.tokens, chunk), whole)
                    << file << ", chunks of " << chunk;
        }
    }
}

TEST(Golden, StopTokensComeFromAllFiles) {
    EXPECT_EQ(load_exact(kFolder + "llama_tied").stop_tokens(), (std::vector<int32_t>{2, 5}));
}

TEST(Golden, IdentityTellsWeightsApart) {
    const uint64_t one = load_exact(kFolder + "llama_tied").identity();
    EXPECT_EQ(
        one,
        load_exact(kFolder + "llama_tied", {.attention = "sliding_window:window=9"}).identity());
    EXPECT_NE(one, load_exact(kFolder + "llama3_rope").identity());
    EXPECT_NE(one, load_exact(kFolder + "qwen3").identity());
}

TEST(Golden, ShardsAreOneModel) {
    const Model model = load_exact(kFolder + "llama");
    EXPECT_EQ(model.info().format, "safetensors, 4 shards");
    EXPECT_GT(model.info().n_parameters, 20000);
    EXPECT_EQ(model.info().layers.size(), 2u);
}

}  // namespace
}  // namespace bifocal
