// The tokenizer.ggml.* metadata of a GGUF file as a plain struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bifocal::tokenizer {

// Values of tokenizer.ggml.token_type.
enum class TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

struct GgufVocab {
    std::string model;  // "gpt2" or "llama"
    std::string pre;    // name of the pre-tokenizer
    std::vector<std::string> tokens;
    std::vector<float> scores;        // "llama": as long as tokens
    std::vector<int32_t> token_type;  // empty: all normal
    std::vector<std::string> merges;  // "gpt2": "left right"
    std::optional<int64_t> bos, eos, eot, eom, unk, pad;
    std::optional<bool> add_bos, add_eos, add_space_prefix;
    // Qwen2's pre-tokenizer normalises to NFC, as its tokenizer.json does; llama.cpp does not.
    bool nfc = true;
    std::string huggingface_json;  // a whole tokenizer.json; preferred when not empty
};

}  // namespace bifocal::tokenizer
