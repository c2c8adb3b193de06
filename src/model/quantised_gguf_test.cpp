// GGUF files as people have them, with quantised matrices: every one gives what the same file gives
// with its matrices dequantised to FP32 beforehand, whatever is cut out of fused tensors, undone or
// put in another order on the way.
#include <gtest/gtest.h>

#include <cstring>

#include "core/dequant.h"
#include "core/quantise.h"
#include "formats/gguf/file.h"
#include "formats/gguf/writer.h"
#include "model/testing/checkpoint_copy.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

void copy_entry(const gguf::Metadata::Entry& entry, gguf::Writer& writer) {
    const auto& [key, value] = entry;
    if (const auto* text = std::get_if<std::string>(&value.held))
        return writer.add_string(key, *text);
    if (const auto* flag = std::get_if<bool>(&value.held)) return writer.add_bool(key, *flag);
    if (const auto* real = std::get_if<double>(&value.held))
        return writer.add_f32(key, static_cast<float>(*real));
    if (const auto* array = std::get_if<gguf::Array>(&value.held)) {
        ASSERT_TRUE(array->strings.empty()) << key;
        std::vector<std::byte> bytes(12 + array->raw.size());
        const auto element = static_cast<uint32_t>(array->element);
        std::memcpy(bytes.data(), &element, 4);
        std::memcpy(bytes.data() + 4, &array->count, 8);
        std::memcpy(bytes.data() + 12, array->raw.data(), array->raw.size());
        return writer.add_raw(key, gguf::ValueType::array, bytes);
    }
    writer.add_u32(key, static_cast<uint32_t>(value.as_integer().value()));
}

struct Case {
    const char* checkpoint;
    DType dtype;
};

class QuantisedGguf : public testing::CheckpointCopy, public ::testing::WithParamInterface<Case> {
  protected:
    // The checkpoint's twin with matrices of `dtype`, or of what these mean in FP32. Returns how
    // many matrices that are.
    int write(const std::string& path, bool is_dequantised) {
        const gguf::File file =
            gguf::File::open(testing::kFolder + GetParam().checkpoint + "/model.gguf").value();
        gguf::Writer writer;
        for (const auto& entry : file.metadata().entries())
            if (entry.key != "general.alignment") copy_entry(entry, writer);
        const DType dtype = GetParam().dtype;
        int n = 0;
        for (const gguf::TensorInfo& info : file.tensors()) {
            const bool fits = info.shape.size() > 1 && info.dtype != DType::mxfp4 &&
                              info.shape.back() % dtype_info(dtype).block_elems == 0 &&
                              info.name.find("conv1d") == std::string::npos &&
                              !info.name.ends_with(".bias");
            if (!fits) {
                writer.add_tensor(info.name, info.dtype, info.shape, info.bytes);
                continue;
            }
            int64_t elems = 1;
            for (const int64_t size : info.shape) elems *= size;
            std::vector<float> values(static_cast<size_t>(elems));
            dequantise_row(info.dtype, info.bytes.data(), values);
            const std::vector<std::byte> blocks = quantise(dtype, values);
            dequantise_row(dtype, blocks.data(), values);
            if (is_dequantised)
                writer.add_tensor(info.name, DType::f32, info.shape,
                                  std::as_bytes(std::span(values)));
            else
                writer.add_tensor(info.name, dtype, info.shape, blocks);
            ++n;
        }
        EXPECT_TRUE(writer.write(path).ok());
        return n;
    }
};
INSTANTIATE_TEST_SUITE_P(
    Twins, QuantisedGguf,
    ::testing::Values(Case{"llama_tied", DType::q8_0}, Case{"phi3_longrope", DType::q4_1},
                      Case{"qwen3", DType::q5_0}, Case{"qwen3_5", DType::q8_0},
                      Case{"qwen3_5", DType::q4_0}, Case{"qwen3_next", DType::q8_0},
                      Case{"qwen3_next_sparse", DType::q4_1}, Case{"gpt_oss_mxfp4", DType::q8_0}),
    [](const auto& test) {
        return std::string(test.param.checkpoint) + "_" +
               std::string(dtype_info(test.param.dtype).name);
    });

TEST_P(QuantisedGguf, MeansItsDequantisedSelf) {
    const std::string stored = folder_ / "stored.gguf", plain = folder_ / "plain.gguf";
    EXPECT_GT(write(stored, false), 5);
    write(plain, true);
    const Model quantised = testing::load_exact(stored), floats = testing::load_exact(plain);
    const std::vector<int32_t> tokens = testing::golden_of(GetParam().checkpoint).tokens;
    const std::vector<float> expected = testing::all_logits(floats.decoder(), tokens, 48);
    EXPECT_LE(
        testing::largest_difference(testing::all_logits(quantised.decoder(), tokens, 48), expected),
        1e-5);
    // The blocks were read, and not the numbers that they came from.
    const Model original =
        testing::load_exact(testing::kFolder + GetParam().checkpoint + "/model.gguf");
    EXPECT_GT(
        testing::largest_difference(testing::all_logits(original.decoder(), tokens, 48), expected),
        1e-4);
}

}  // namespace
}  // namespace bifocal
