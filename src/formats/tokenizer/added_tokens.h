// Added tokens: found in the text before anything else is done to it, leftmost-longest, with the
// flags and the corner cases of the tokenizers library.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bifocal::tokenizer {

struct AddedToken {
    int32_t id = 0;
    std::string content;
    bool special = false;      // a control token
    bool normalized = false;   // looked for after normalisation
    bool single_word = false;  // not beside a word character
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space behind it
};

// A stretch of text: an added token with its id, or ordinary text without.
struct Stretch {
    size_t begin, end;
    std::optional<int32_t> id;
};

class AddedTokenMatcher {
  public:
    // Contents may differ from the tokens' own (normalised ones do); empty ones are left out.
    void add(const AddedToken& token, std::string_view content);
    bool empty() const { return tokens_.empty(); }

    // Part of a text that came from one side; specials are recognised only where allowed.
    struct Run {
        size_t begin, end;
        bool specials;
    };
    // Divides `text`. `runs` cover it; no match spans two runs, but flags see their neighbours.
    std::vector<Stretch> divide(std::string_view text, const std::vector<Run>& runs) const;

  private:
    struct Hit {
        size_t end;
        int32_t token;  // index in tokens_, -1 for none
    };
    Hit longest_at(std::string_view text, size_t at, size_t end) const;

    std::vector<AddedToken> tokens_;
    std::unordered_map<uint64_t, int32_t> edges_;  // node << 8 | byte -> node
    std::vector<int32_t> token_of_{-1};            // by node
    bool starts_[256] = {};
};

}  // namespace bifocal::tokenizer
