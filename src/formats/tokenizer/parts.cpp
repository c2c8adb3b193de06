// From loaded parts to a working tokenizer.
#include "formats/tokenizer/parts.h"

#include <algorithm>

namespace bifocal::tokenizer {
namespace {

// FNV-1a, 64 bits.
class Hash {
  public:
    void bytes(std::string_view text) {
        number(text.size());
        for (const char c : text) mix(static_cast<uint8_t>(c));
    }
    void number(uint64_t n) {
        for (int shift = 0; shift < 64; shift += 8) mix(static_cast<uint8_t>(n >> shift));
    }
    uint64_t value() const { return value_; }

  private:
    void mix(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }
    uint64_t value_ = 0xCBF29CE484222325u;
};

uint64_t identity_of(const Parts& parts) {
    Hash hash;
    hash.number(parts.tokens.size());
    for (const std::string& token : parts.tokens) hash.bytes(token);
    for (const IdPairMerge& m : parts.merges) {
        hash.number(static_cast<uint32_t>(m.left));
        hash.number(static_cast<uint32_t>(m.right));
        hash.number(static_cast<uint32_t>(m.merge.rank));
    }
    for (const AddedToken& token : parts.added) {
        hash.number(static_cast<uint32_t>(token.id));
        hash.number(token.special * 1u + token.normalized * 2u + token.single_word * 4u +
                    token.lstrip * 8u + token.rstrip * 16u);
    }
    hash.bytes(parts.pipeline);
    return hash.value();
}

}  // namespace

Error tokenizer_error(std::string what, const std::string& where, std::string expected,
                      std::string got) {
    return {.what = std::move(what),
            .where = where,
            .expected = std::move(expected),
            .got = std::move(got)};
}

Status Parts::add_token(AddedToken token, const std::string& where) {
    if (token.content.empty()) return {};
    const std::string here = where + ", added token " + std::to_string(token.id);
    if (token.content.size() > kMaxAddedBytes) {
        return tokenizer_error("added token too long", here,
                               "at most " + std::to_string(kMaxAddedBytes) + " bytes",
                               std::to_string(token.content.size()));
    }
    if (token.id < 0 || token.id >= kMaxVocab) {
        return tokenizer_error("token id out of range", here, "0.." + std::to_string(kMaxVocab - 1),
                               std::to_string(token.id));
    }
    const auto id = static_cast<size_t>(token.id);
    if (id >= tokens.size()) {
        tokens.resize(id + 1);
        in_model.resize(id + 1);
    }
    if (tokens[id].empty()) {
        tokens[id] = token.content;
    } else if (tokens[id] != token.content) {
        return tokenizer_error("two tokens share an id", here, "'" + tokens[id] + "'",
                               "'" + token.content + "'");
    }
    if (const auto [known, fresh] = added_ids.emplace(token.content, token.id); !fresh) {
        if (known->second == token.id) return {};
        return tokenizer_error("added token given twice", here,
                               "id " + std::to_string(known->second), std::to_string(token.id));
    }
    added.push_back(std::move(token));
    return {};
}

Status Parts::finish(const std::string& where) {
    identity = identity_of(*this);
    bpe = std::make_unique<Bpe>(tokens, in_model, merges, options, pre_tokenizer.raw_bytes);
    merges.clear();
    merges.shrink_to_fit();
    is_special.assign(tokens.size(), false);
    for (const AddedToken& token : added) {
        if (const auto id = bpe->find(token.content); id && *id != token.id) {
            return tokenizer_error("added token differs from the vocabulary", where,
                                   "'" + token.content + "' at id " + std::to_string(*id),
                                   std::to_string(token.id));
        }
        if (token.special) is_special[token.id] = true;
        if (!token.normalized) {
            raw_matcher.add(token, token.content);
            continue;
        }
        bool at_start = true;
        BIFOCAL_TRY(const std::string content, normalizer.apply(token.content, at_start));
        normalized_matcher.add(token, content);
        if (content != token.content) normal_contents[token.id] = content;
        normalized_specials = normalized_specials || token.special;
    }
    return {};
}

}  // namespace bifocal::tokenizer
