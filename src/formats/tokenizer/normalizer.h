// Normalizers: what is done to text before it is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/pattern.h"
#include "formats/unicode/normalize.h"

namespace bifocal::tokenizer {

struct PrependNormalizer {
    std::string text;  // put before text that is not empty
};
struct ReplaceNormalizer {
    Pattern pattern;
    std::string content;
};
struct LowercaseNormalizer {};
struct StripNormalizer {
    bool left, right;
};
using NormalizerStep = std::variant<unicode::Form, PrependNormalizer, ReplaceNormalizer,
                                    LowercaseNormalizer, StripNormalizer>;

struct Normalizer {
    std::vector<NormalizerStep> steps;

    // `at_start` says whether `text` begins where the whole input begins, and becomes false when
    // its beginning is removed. REQUIRES: valid UTF-8.
    Result<std::string> apply(std::string_view text, bool& at_start) const;
};

}  // namespace bifocal::tokenizer
