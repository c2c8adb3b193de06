// SmolLM2-135M-Instruct Q4_1 against transformers on the dequantised weights, over 512 tokens;
// written by tools/golden/real_model.py.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "formats/safetensors/file.h"
#include "formats/tokenizer/tokenizer.h"
#include "model/testing/run.h"
#include "ops/sampling.h"

namespace bifocal {
namespace {

const std::string kModel =
    std::string(BIFOCAL_SOURCE_DIR) + "/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
const std::string kGolden =
    std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/models/real_smollm2.safetensors";

template <class T>
std::vector<T> values(const safetensors::File& file, const char* name) {
    const Tensor tensor = file.tensor(name).value();
    std::vector<T> result(static_cast<size_t>(tensor.elems()));
    std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
    return result;
}

Model load(bool exact) {
    Result<Model> model = Model::load(kModel, {.exact = exact});
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message());
    return std::move(model).value();
}

double log_sum_exp(std::span<const float> row) {
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
    return top + std::log(sum);
}

class RealModel : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!std::filesystem::exists(kModel)) GTEST_SKIP() << kModel << " is not there";
    }
};

TEST_F(RealModel, EqualsTransformersAndTheFastPathStaysClose) {
    const safetensors::File golden = safetensors::File::open(kGolden).value();
    const auto tokens = values<int32_t>(golden, "tokens");
    const auto top = values<int32_t>(golden, "top");
    const auto columns = values<int32_t>(golden, "columns");
    const auto expected = values<float>(golden, "logits");
    const auto expected_lse = values<float>(golden, "logsumexp");
    const auto T = static_cast<int64_t>(tokens.size());

    std::vector<float> exact;
    int64_t V = 0;
    {
        const Model model = load(true);
        V = model.decoder().spec.vocab_size;
        exact = testing::all_logits(model.decoder(), tokens, 128, 0);
    }
    double largest = 0, largest_lse = 0;
    int64_t same_top = 0;
    for (int64_t t = 0; t < T; ++t) {
        const auto row = std::span<const float>(exact).subspan(t * V, V);
        same_top += ops::argmax(row) == top[t];
        for (size_t c = 0; c < columns.size(); ++c)
            largest = std::max(largest, std::abs(static_cast<double>(row[columns[c]]) -
                                                 expected[t * columns.size() + c]));
        largest_lse = std::max(largest_lse, std::abs(log_sum_exp(row) - expected_lse[t]));
    }
    std::printf(
        "exact path: largest difference %.6f, of logsumexp %.6f, top token equal at %.2f %%\n",
        largest, largest_lse, 100.0 * static_cast<double>(same_top) / static_cast<double>(T));
    EXPECT_LE(largest, 2e-3);
    EXPECT_LE(largest_lse, 2e-3);
    EXPECT_GE(static_cast<double>(same_top), 0.998 * static_cast<double>(T));

    const Model fast = load(false);
    for (const DType kv : {DType::f32, DType::bf16}) {
        const std::vector<float> logits = testing::all_logits(fast.decoder(), tokens, 128, 0, kv);
        double sum = 0, worst = 0;
        int64_t same = 0;
        for (int64_t t = 0; t < T; ++t) {
            const auto p = std::span<const float>(exact).subspan(t * V, V);
            const auto q = std::span<const float>(logits).subspan(t * V, V);
            const double lse_p = log_sum_exp(p), lse_q = log_sum_exp(q);
            double kl = 0;
            for (int64_t v = 0; v < V; ++v)
                kl += std::exp(p[v] - lse_p) * ((p[v] - lse_p) - (q[v] - lse_q));
            sum += kl;
            worst = std::max(worst, kl);
            same += ops::argmax(p) == ops::argmax(q);
        }
        const double mean = sum / static_cast<double>(T);
        std::printf(
            "fast path, %s ring: mean KL to the exact path %.6f nats, largest %.6f, top token "
            "equal at %.2f %%\n",
            std::string(dtype_info(kv).name).c_str(), mean, worst,
            100.0 * static_cast<double>(same) / static_cast<double>(T));
        EXPECT_LE(mean, 5e-3);
        EXPECT_GE(mean, 0);
    }
}

TEST_F(RealModel, LoadsQuicklyWithAllItsParts) {
    const auto begin = std::chrono::steady_clock::now();
    const Model model = load(false);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("loaded in %.3f s\n", seconds.count());
    EXPECT_EQ(model.notes(), std::vector<std::string>{});
    ASSERT_NE(model.tokenizer(), nullptr);
    EXPECT_TRUE(model.chat_template().has_value());
    EXPECT_EQ(model.stop_tokens(), (std::vector<int32_t>{0, 2}));  // end of text, end of turn
    EXPECT_EQ(model.context_length(), 8192);
    EXPECT_EQ(model.info().n_parameters, 134515008);
    EXPECT_EQ(model.info().format, "GGUF version 3");
}

}  // namespace
}  // namespace bifocal
