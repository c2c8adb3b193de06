// A trie walked from every possible beginning: leftmost-longest by construction.
#include "formats/tokenizer/added_tokens.h"

#include <algorithm>

#include "formats/unicode/category.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

size_t spaces_from(std::string_view text, size_t at) {
    while (at < text.size()) {
        const unicode::Decoded c = unicode::decode(text, at);
        if (!unicode::is_space(c.code_point)) break;
        at += c.bytes;
    }
    return at;
}

size_t spaces_before(std::string_view text, size_t at) {
    while (at > 0) {
        const unicode::Decoded c = unicode::decode_before(text, at);
        if (!unicode::is_space(c.code_point)) break;
        at -= c.bytes;
    }
    return at;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
    const bool left =
        begin == 0 || !unicode::is_word(unicode::decode_before(text, begin).code_point);
    const bool right =
        end == text.size() || !unicode::is_word(unicode::decode(text, end).code_point);
    return left && right;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string_view content) {
    if (content.empty()) return;
    int32_t node = 0;
    for (const char c : content) {
        const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
        const auto [edge, fresh] = edges_.emplace(key, static_cast<int32_t>(token_of_.size()));
        if (fresh) token_of_.push_back(-1);
        node = edge->second;
    }
    starts_[static_cast<uint8_t>(content[0])] = true;
    // The first of equal contents wins.
    if (token_of_[node] >= 0) return;
    token_of_[node] = static_cast<int32_t>(tokens_.size());
    tokens_.push_back(token);
}

AddedTokenMatcher::Hit AddedTokenMatcher::longest_at(std::string_view text, size_t at,
                                                     size_t end) const {
    Hit best{at, -1};
    int32_t node = 0;
    for (size_t i = at; i < end; ++i) {
        const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[i]);
        const auto edge = edges_.find(key);
        if (edge == edges_.end()) break;
        node = edge->second;
        if (token_of_[node] >= 0) best = {i + 1, token_of_[node]};
    }
    return best;
}

std::vector<Stretch> AddedTokenMatcher::divide(std::string_view text,
                                               const std::vector<Run>& runs) const {
    std::vector<Stretch> stretches;
    size_t done = 0;
    for (const Run& run : runs) {
        for (size_t at = run.begin; at < run.end && !tokens_.empty();) {
            if (!starts_[static_cast<uint8_t>(text[at])]) {
                ++at;
                continue;
            }
            const Hit hit = longest_at(text, at, run.end);
            if (hit.token < 0) {
                ++at;
                continue;
            }
            size_t begin = at, end = hit.end;
            at = hit.end;
            const AddedToken& token = tokens_[hit.token];
            // A discarded match is not tried again with a shorter token.
            if (token.special && !run.specials) continue;
            if (token.single_word && !stands_alone(text, begin, end)) continue;
            if (token.lstrip) begin = std::max(spaces_before(text, begin), std::min(done, begin));
            if (token.rstrip) end = spaces_from(text, end);
            // When the match before took white space that this one is made of, both stand.
            if (done < begin) stretches.push_back({done, begin, std::nullopt});
            stretches.push_back({begin, end, token.id});
            done = end;
        }
    }
    if (done != text.size()) stretches.push_back({done, text.size(), std::nullopt});
    return stretches;
}

}  // namespace bifocal::tokenizer
