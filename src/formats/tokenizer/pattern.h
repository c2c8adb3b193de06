// What a Split or Replace looks for: literal text, a known family's pattern, or any other regular
// expression; and how the matches divide a text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/scanner.h"

namespace bifocal::tokenizer {

struct Pattern {
    // Exactly one of the three.
    std::string literal;
    std::optional<Family> family;
    std::optional<Regex> regex;

    static Result<Pattern> from_regex(std::string_view text, const std::string& where);
    static Pattern from_literal(std::string text);
    static Pattern from_family(Family family);

    Status for_each(std::string_view text, const std::function<void(size_t, size_t)>& match) const;
};

struct Span {
    size_t begin, end;
    bool is_match;
};

// Matches and what lies between them, in order, covering `text`.
Result<std::vector<Span>> divide(const Pattern& pattern, std::string_view text);
Result<std::string> replace_all(const Pattern& pattern, std::string_view text,
                                std::string_view content);

enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };
// Joins or drops spans in place as the behaviour says.
void apply_behavior(std::vector<Span>& spans, Behavior behavior);

}  // namespace bifocal::tokenizer
