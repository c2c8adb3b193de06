// Matching and dividing.
#include "formats/tokenizer/pattern.h"

#include <algorithm>

namespace bifocal::tokenizer {

Result<Pattern> Pattern::from_regex(std::string_view text, const std::string& where) {
    if (const auto family = family_of_pattern(text)) return from_family(*family);
    Pattern pattern;
    BIFOCAL_TRY(pattern.regex, Regex::compile(text, where));
    return pattern;
}

Pattern Pattern::from_literal(std::string text) {
    Pattern pattern;
    pattern.literal = std::move(text);
    return pattern;
}

Pattern Pattern::from_family(Family family) {
    Pattern pattern;
    pattern.family = family;
    return pattern;
}

Status Pattern::for_each(std::string_view text,
                         const std::function<void(size_t, size_t)>& match) const {
    if (regex) return regex->for_each(text, match);
    if (family) {
        for (size_t at = 0; at < text.size();) {
            const size_t end = scan_piece(*family, text, at);
            match(at, end);
            at = end;
        }
        return {};
    }
    if (literal.empty()) return {};
    for (size_t at = text.find(literal); at != std::string_view::npos;) {
        match(at, at + literal.size());
        at = text.find(literal, at + literal.size());
    }
    return {};
}

Result<std::vector<Span>> divide(const Pattern& pattern, std::string_view text) {
    std::vector<Span> spans;
    size_t done = 0;
    BIFOCAL_TRY_STATUS(pattern.for_each(text, [&](size_t begin, size_t end) {
        if (done != begin) spans.push_back({done, begin, false});
        spans.push_back({begin, end, true});
        done = end;
    }));
    if (done != text.size()) spans.push_back({done, text.size(), false});
    return spans;
}

Result<std::string> replace_all(const Pattern& pattern, std::string_view text,
                                std::string_view content) {
    std::string out;
    out.reserve(text.size());
    size_t done = 0;
    BIFOCAL_TRY_STATUS(pattern.for_each(text, [&](size_t begin, size_t end) {
        out += text.substr(done, begin - done);
        out += content;
        done = end;
    }));
    out += text.substr(done);
    return out;
}

namespace {

// A match is joined to the span before it, unless that is a match too.
void merge_with_previous(std::vector<Span>& spans) {
    size_t kept = 0;
    bool previous_match = false;
    for (const Span span : spans) {
        if (span.is_match && !previous_match && kept > 0) {
            spans[kept - 1].end = span.end;
        } else {
            spans[kept++] = span;
        }
        previous_match = span.is_match;
    }
    spans.resize(kept);
}

void merge_with_next(std::vector<Span>& spans) {
    std::reverse(spans.begin(), spans.end());
    size_t kept = 0;
    bool previous_match = false;
    for (const Span span : spans) {
        if (span.is_match && !previous_match && kept > 0) {
            spans[kept - 1].begin = span.begin;
        } else {
            spans[kept++] = span;
        }
        previous_match = span.is_match;
    }
    spans.resize(kept);
    std::reverse(spans.begin(), spans.end());
}

void join_equal(std::vector<Span>& spans) {
    size_t kept = 0;
    for (const Span span : spans) {
        if (kept > 0 && spans[kept - 1].is_match == span.is_match) {
            spans[kept - 1].end = span.end;
        } else {
            spans[kept++] = span;
        }
    }
    spans.resize(kept);
}

}  // namespace

void apply_behavior(std::vector<Span>& spans, Behavior behavior) {
    switch (behavior) {
        case Behavior::isolated:
            break;
        case Behavior::removed:
            std::erase_if(spans, [](const Span& span) { return span.is_match; });
            break;
        case Behavior::merged_with_previous:
            merge_with_previous(spans);
            break;
        case Behavior::merged_with_next:
            merge_with_next(spans);
            break;
        case Behavior::contiguous:
            join_equal(spans);
            break;
    }
}

}  // namespace bifocal::tokenizer
