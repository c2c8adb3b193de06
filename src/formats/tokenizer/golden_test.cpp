// Equality with the PyPI package tokenizers, family by family (tools/golden/tokenizer.py).
#include "formats/tokenizer/golden_test_support.h"

namespace bifocal::tokenizer {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EqualsReference) {
    const std::string name = GetParam();
    auto tokenizer = Tokenizer::from_json_file(golden_path(name + "_tokenizer.json"));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    compare_with_golden(*tokenizer, read_golden(name + ".json"));
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGolden,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "qwen35", "o200k",
                                         "tekken", "cl100k", "spm_prepend", "spm_metaspace",
                                         "flags", "prefix"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace bifocal::tokenizer
