// The inside of a Tokenizer: what loaders fill in and encoding reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/decoder.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/pretokenizer.h"
#include "formats/tokenizer/tokenizer.h"

namespace bifocal::tokenizer {

inline constexpr size_t kMaxFileBytes = size_t{256} << 20;
inline constexpr int64_t kMaxVocab = int64_t{4} << 20;
inline constexpr int64_t kMaxIdGap = 65536;
inline constexpr size_t kMaxTokenBytes = 64 * 1024;
inline constexpr size_t kMaxAddedBytes = 1024;
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

struct Parts {
    // By id; ids without a token are empty and not in_model.
    std::vector<std::string> tokens;
    std::vector<bool> in_model;
    std::vector<IdPairMerge> merges;  // what the model was built from; cleared by finish()
    BpeOptions options;
    std::vector<AddedToken> added;  // in the file's order
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Decoder decoder;
    std::vector<int32_t> prefix, suffix;  // what add_special puts around a text
    SpecialIds special;
    std::vector<std::string> warnings;
    std::string pipeline;  // description of the components, for identity

    // Made by finish().
    std::unique_ptr<Bpe> bpe;
    std::unordered_map<std::string, int32_t> added_ids;
    std::vector<bool> is_special;  // by id
    // Added tokens whose normalised content differs from their own: that is what they decode to.
    std::unordered_map<int32_t, std::string> normal_contents;
    AddedTokenMatcher raw_matcher, normalized_matcher;
    bool normalized_specials = false;  // normalized_matcher has control tokens
    uint64_t identity = 0;

    // Adds `token` under its id. Fails when the id is taken by another token.
    Status add_token(AddedToken token, const std::string& where);
    // Builds the rest from what was filled in.
    Status finish(const std::string& where);
};

Error tokenizer_error(std::string what, const std::string& where, std::string expected = "",
                      std::string got = "");

}  // namespace bifocal::tokenizer
