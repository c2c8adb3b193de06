#include "model/weight_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "model/families/family.h"
#include "model/identity.h"

namespace bifocal {
namespace {

std::vector<float> floats(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.elems()));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

ModelSpec small_spec() {
    ModelSpec spec;
    spec.vocab_size = 11;
    spec.d_model = 5;
    LayerSpec layer;
    layer.d_ff = 7;
    layer.context.n_heads = 4;
    layer.context.n_kv_heads = 2;
    layer.context.head_dim = 6;
    spec.layers = {layer};
    return spec;
}

TEST(WeightTable, RowsPutInPairsComeBackAsHalves) {
    // Two heads of six rows, one element each: row h·3 + j of a head is stored as row 2j + h.
    const float stored[] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    const Tensor ours = unpaired_rows(make_tensor_f32({12, 1}, stored), 6);
    EXPECT_THAT(floats(ours), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(WeightTable, AScaleThatIsNoNumberIsRefused) {
    ModelSpec spec = small_spec();
    spec.d_model = 64;
    Checkpoint checkpoint;
    checkpoint.where = "m";
    std::byte* data = nullptr;
    Tensor& stored = checkpoint.tensors["model.embed_tokens.weight"] =
        make_tensor(DType::mxfp4, {11, 64}, &data);
    std::memset(data, 1, stored.bytes.size());
    WeightFinder finder(checkpoint, spec);
    EXPECT_TRUE(finder.model_weight("model.embed_tokens.weight", true).ok());
    data[17 * 21 + 3] = std::byte{255};  // not a scale
    EXPECT_TRUE(finder.model_weight("model.embed_tokens.weight", true).ok());
    data[17 * 21] = std::byte{255};
    EXPECT_THAT(
        finder.model_weight("model.embed_tokens.weight", true).error().message(),
        ::testing::AllOf(::testing::HasSubstr("embed_tokens"), ::testing::HasSubstr("byte 357")));
}

// The scores of a rotation by neighbours on stored rows are those of a rotation by halves on ours.
TEST(WeightTable, BothRotationsGiveTheSameScores) {
    const float q_stored[] = {0.3f, -1.2f, 0.7f, 0.1f, 2.0f, -0.4f};
    const float k_stored[] = {1.1f, 0.2f, -0.6f, 0.9f, 0.5f, -1.5f};
    const std::vector<float> q = floats(unpaired_rows(make_tensor_f32({6, 1}, q_stored), 6));
    const std::vector<float> k = floats(unpaired_rows(make_tensor_f32({6, 1}, k_stored), 6));
    const auto turned = [](std::span<const float> x, int a, int b, double angle) {
        return std::pair{x[a] * std::cos(angle) - x[b] * std::sin(angle),
                         x[b] * std::cos(angle) + x[a] * std::sin(angle)};
    };
    double by_pairs = 0, by_halves = 0;
    for (int j = 0; j < 3; ++j) {
        const double speed = std::pow(10.0, -j);
        const auto [q1, q2] = turned(q_stored, 2 * j, 2 * j + 1, 5 * speed);
        const auto [k1, k2] = turned(k_stored, 2 * j, 2 * j + 1, 2 * speed);
        by_pairs += q1 * k1 + q2 * k2;
        const auto [q3, q4] = turned(q, j, j + 3, 5 * speed);
        const auto [k3, k4] = turned(k, j, j + 3, 2 * speed);
        by_halves += q3 * k3 + q4 * k4;
    }
    EXPECT_NEAR(by_pairs, by_halves, 1e-6);
}

TEST(WeightTable, FusedRowsAreFoundInBothNamings) {
    const ModelSpec spec = small_spec();
    std::vector<float> values(48 * 5);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 5);
    for (const bool is_gguf : {false, true}) {
        Checkpoint checkpoint;
        checkpoint.is_gguf = is_gguf;
        const char* name =
            is_gguf ? "blk.0.attn_qkv.weight" : "model.layers.0.self_attn.qkv_proj.weight";
        checkpoint.tensors[name] = make_tensor_f32({48, 5}, values);
        WeightFinder finder(checkpoint, spec);
        const struct {
            const char* name;
            int64_t rows;
            float first;
        } parts[] = {{"self_attn.q_proj.weight", 24, 0},
                     {"self_attn.k_proj.weight", 12, 24},
                     {"self_attn.v_proj.weight", 12, 36}};
        for (const auto& part : parts) {
            const Result<Tensor> found = finder.layer_weight(0, {part.name, {part.rows, 5}});
            ASSERT_TRUE(found.ok()) << found.error().message();
            EXPECT_EQ(floats(*found).front(), part.first);
        }
        EXPECT_TRUE(finder.unused().empty());
    }
}

TEST(WeightTable, PairedRowsAreUnpairedInsideAFusedTensorToo) {
    const ModelSpec spec = small_spec();
    std::vector<float> values(48);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    Checkpoint checkpoint;
    checkpoint.is_gguf = checkpoint.is_qk_paired = true;
    checkpoint.tensors["blk.0.attn_qkv.bias"] = make_tensor_f32({48}, values);
    WeightFinder finder(checkpoint, spec);
    const Tensor k = finder.layer_weight(0, {"self_attn.k_proj.bias", {12}}).value();
    EXPECT_THAT(floats(k), ::testing::ElementsAre(24, 26, 28, 25, 27, 29, 30, 32, 34, 31, 33, 35));
    const Tensor v = finder.layer_weight(0, {"self_attn.v_proj.bias", {12}}).value();
    EXPECT_EQ(floats(v)[1], 37);
}

// A mixer of the future brings weights that GGUF has no name for.
TEST(WeightTable, UnlistedNamesAreTakenAsTheyAre) {
    const ModelSpec spec = small_spec();
    Checkpoint checkpoint;
    const float values[] = {1, 2, 3};
    checkpoint.tensors["model.layers.0.linear_attn.bonus"] = make_tensor_f32({3}, values);
    WeightFinder finder(checkpoint, spec);
    EXPECT_TRUE(finder.layer_weight(0, {"linear_attn.bonus", {3}}).ok());
    checkpoint.is_gguf = true;
    WeightFinder gguf_finder(checkpoint, spec);
    const Result<Tensor> missing = gguf_finder.layer_weight(0, {"linear_attn.bonus", {3}});
    ASSERT_FALSE(missing.ok());
    EXPECT_THAT(missing.error().message(), ::testing::HasSubstr("linear_attn.bonus"));
}

// What is stored together for each key head comes apart into q, k, v of all heads, z, b and a.
TEST(WeightTable, GroupedProjectionsComeApartInBothNamings) {
    ModelSpec spec = small_spec();
    spec.linear = {.key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 1};
    std::vector<float> qkvz, ba;
    for (const float head : {0.0f, 100.0f}) {
        for (int row = 0; row < 3 + 3 + 2 + 2; ++row)
            qkvz.push_back(head + static_cast<float>(row));
        for (int row = 0; row < 4; ++row) ba.push_back(head + static_cast<float>(row));
    }
    for (const bool is_gguf : {false, true}) {
        Checkpoint checkpoint;
        checkpoint.is_gguf = is_gguf;
        const auto add = [&](const char* hf, const char* gguf, const std::vector<float>& rows) {
            const std::string name = is_gguf ? std::string("blk.0.") + gguf
                                             : std::string("model.layers.0.linear_attn.") + hf;
            checkpoint.tensors[name] = make_tensor_f32({std::ssize(rows), 1}, rows);
        };
        add("in_proj_qkvz.weight", "ssm_in.weight", qkvz);
        add("in_proj_ba.weight", "ssm_ba.weight", ba);
        WeightFinder finder(checkpoint, spec);
        const auto rows = [&](const char* name, int64_t n) {
            const auto found =
                finder.layer_weight(0, {std::string("linear_attn.") + name + ".weight", {n, 1}});
            EXPECT_TRUE(found.ok()) << found.error().message();
            return floats(*found);
        };
        using ::testing::ElementsAre;
        EXPECT_THAT(rows("in_proj_qkv", 16),
                    ElementsAre(0, 1, 2, 100, 101, 102, 3, 4, 5, 103, 104, 105, 6, 7, 106, 107));
        EXPECT_THAT(rows("in_proj_z", 4), ElementsAre(8, 9, 108, 109));
        EXPECT_THAT(rows("in_proj_b", 4), ElementsAre(0, 1, 100, 101));
        EXPECT_THAT(rows("in_proj_a", 4), ElementsAre(2, 3, 102, 103));
        EXPECT_TRUE(finder.unused().empty());
        // A mixer that wants other heads than the checkpoint has.
        const auto other = finder.layer_weight(0, {"linear_attn.in_proj_z.weight", {6, 1}});
        ASSERT_FALSE(other.ok());
        EXPECT_THAT(other.error().message(), ::testing::HasSubstr("expected [6, 1], got [4, 1]"));
    }
}

TEST(WeightTable, GgufHoldsRatesAndConvolutionsInItsOwnForm) {
    const ModelSpec spec = small_spec();
    Checkpoint checkpoint;
    checkpoint.is_gguf = true;
    const float rates[] = {-1.0f, -std::exp(0.5f)}, taps[] = {1, 2, 3, 4, 5, 6};
    checkpoint.tensors["blk.0.ssm_a"] = make_tensor_f32({2}, rates);
    checkpoint.tensors["blk.0.ssm_conv1d.weight"] = make_tensor_f32({3, 2}, taps);
    WeightFinder finder(checkpoint, spec);
    const std::vector<float> logs =
        floats(finder.layer_weight(0, {"linear_attn.A_log", {2}}).value());
    EXPECT_NEAR(logs[0], 0, 1e-7);
    EXPECT_NEAR(logs[1], 0.5, 1e-7);
    const Tensor conv = finder.layer_weight(0, {"linear_attn.conv1d.weight", {3, 1, 2}}).value();
    EXPECT_EQ(conv.shape, (std::vector<int64_t>{3, 1, 2}));
    for (const float bad : {0.0f, 1.0f, -INFINITY, NAN}) {
        checkpoint.tensors["blk.0.ssm_a"] = make_tensor_f32({1}, std::span(&bad, 1));
        const auto refused = finder.layer_weight(0, {"linear_attn.A_log", {1}});
        ASSERT_FALSE(refused.ok()) << bad;
        EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("blk.0.ssm_a"));
    }
}

TEST(WeightTable, NamesAreUnique) {
    std::set<std::pair<std::string_view, int>> names;
    for (const WeightRow& row : layer_weight_rows())
        EXPECT_TRUE(names.insert({row.name, static_cast<int>(row.when)}).second) << row.name;
}

TEST(Families, EveryArchitectureNamesOneFamily) {
    std::set<std::string_view> names;
    for (const Family& family : families()) {
        for (const std::string_view name : family.architectures)
            EXPECT_TRUE(names.insert(name).second) << name;
        for (const std::string_view name : family.model_types)
            EXPECT_TRUE(names.insert(name).second) << name;
    }
    // Only these store q and k for a rotation of neighbours.
    for (const Family& family : families())
        EXPECT_EQ(family.gguf_paired_qk,
                  family.gguf_architecture == "llama" || family.gguf_architecture == "smollm3")
            << family.name;
}

TEST(Identity, EveryByteCounts) {
    std::vector<std::byte> bytes(1000);
    std::set<uint64_t> seen{hash_bytes(bytes, 0)};
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = std::byte{1};
        EXPECT_TRUE(seen.insert(hash_bytes(bytes, 0)).second) << i;
        bytes[i] = std::byte{0};
    }
    for (size_t n = 0; n < 1000; ++n)
        EXPECT_TRUE(seen.insert(hash_bytes(std::span(bytes).first(n), 0)).second) << n;
}

}  // namespace
}  // namespace bifocal
