// What the names in tokenizer.ggml.pre stand for.
#pragma once

#include <array>
#include <string_view>

#include "formats/tokenizer/scanner.h"

namespace bifocal::tokenizer {

struct PreName {
    std::string_view name;
    Family family;
    bool digits_first = false;  // every digit apart before the family's pattern
    bool nfc = false;
    bool ignore_merges = false;
    bool add_bos = false;  // when the file does not say
};

constexpr std::array kPreNames = {
    PreName{"gpt-2", Family::gpt2},
    PreName{"phi-2", Family::gpt2},
    PreName{"default", Family::gpt2},
    PreName{"", Family::gpt2},
    PreName{.name = "smollm", .family = Family::gpt2, .digits_first = true},
    PreName{.name = "starcoder", .family = Family::gpt2, .digits_first = true},
    PreName{.name = "refact", .family = Family::gpt2, .digits_first = true},
    PreName{.name = "llama3", .family = Family::llama3, .ignore_merges = true, .add_bos = true},
    PreName{.name = "llama-v3", .family = Family::llama3, .ignore_merges = true, .add_bos = true},
    PreName{.name = "llama-bpe", .family = Family::llama3, .ignore_merges = true, .add_bos = true},
    PreName{.name = "smaug-bpe", .family = Family::llama3, .ignore_merges = true},
    PreName{.name = "dbrx", .family = Family::llama3},
    PreName{.name = "qwen2", .family = Family::qwen2, .nfc = true},
    PreName{.name = "deepseek-r1-qwen", .family = Family::qwen2, .nfc = true},
    PreName{.name = "qwen35", .family = Family::qwen35, .nfc = true},
    PreName{.name = "gpt-4o", .family = Family::o200k},
    PreName{.name = "llama4", .family = Family::o200k},
    PreName{.name = "tekken", .family = Family::tekken, .ignore_merges = true, .add_bos = true},
};

// Null for a name that is not known.
inline const PreName* find_pre_name(std::string_view name) {
    for (const PreName& pre : kPreNames)
        if (pre.name == name) return &pre;
    return nullptr;
}

}  // namespace bifocal::tokenizer
