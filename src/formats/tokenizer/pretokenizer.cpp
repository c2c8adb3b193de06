// Each step cuts its piece and hands the parts to the next step; no list of pieces is ever made.
#include "formats/tokenizer/pretokenizer.h"

#include "formats/tokenizer/byte_map.h"
#include "formats/unicode/category.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

bool is_punctuation(char32_t c) {
    const bool ascii_symbol = c < 0x80 && c > 0x20 && c != 0x7F && !unicode::is_word(c);
    return c == '_' || ascii_symbol || (unicode::category_bit(c) & unicode::kPunctuation) != 0;
}

// Spans of single characters for which `matches` holds, and of what lies between them.
template <class Matches>
std::vector<Span> divide_chars(std::string_view text, Matches matches) {
    std::vector<Span> spans;
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
        const unicode::Decoded c = unicode::decode(text, at);
        if (matches(c.code_point)) {
            if (done != at) spans.push_back({done, at, false});
            done = at + c.bytes;
            spans.push_back({at, done, true});
        }
        at += c.bytes;
    }
    if (done != text.size()) spans.push_back({done, text.size(), false});
    return spans;
}

class Walk {
  public:
    Walk(const PreTokenizer& pre, const PreTokenizer::Sink& sink) : pre_(pre), sink_(sink) {}

    Status from(size_t step, std::string_view text, bool at_start) {
        if (text.empty()) return {};
        if (step == pre_.steps.size()) {
            sink_(text);
            return {};
        }
        return std::visit([&](const auto& s) { return apply(s, step, text, at_start); },
                          pre_.steps[step]);
    }

  private:
    Status parts(const std::vector<Span>& spans, size_t step, std::string_view text,
                 bool at_start) {
        for (const Span& span : spans) {
            BIFOCAL_TRY_STATUS(from(step + 1, text.substr(span.begin, span.end - span.begin),
                                    at_start && span.begin == 0));
        }
        return {};
    }

    Status family_pieces(Family family, size_t step, std::string_view text, bool at_start) {
        for (size_t at = 0; at < text.size();) {
            const size_t end = scan_piece(family, text, at);
            BIFOCAL_TRY_STATUS(from(step + 1, text.substr(at, end - at), at_start && at == 0));
            at = end;
        }
        return {};
    }

    Status apply(const SplitStep& s, size_t step, std::string_view text, bool at_start) {
        // A family's pattern matches everything, so keeping the matches is cutting at them.
        const bool keeps_matches = (s.behavior == Behavior::isolated && !s.invert) ||
                                   (s.behavior == Behavior::removed && s.invert);
        if (s.pattern.family && keeps_matches) {
            return family_pieces(*s.pattern.family, step, text, at_start);
        }
        BIFOCAL_TRY(std::vector<Span> spans, divide(s.pattern, text));
        if (s.invert) {
            for (Span& span : spans) span.is_match = !span.is_match;
        }
        apply_behavior(spans, s.behavior);
        return parts(spans, step, text, at_start);
    }

    Status apply(const ByteLevelStep& s, size_t step, std::string_view text, bool at_start) {
        std::string prefixed;
        if (s.add_prefix_space && text[0] != ' ') {
            prefixed = " " + std::string(text);
            text = prefixed;
        }
        const auto next = [&](std::string_view piece, bool first) {
            return pre_.raw_bytes ? from(step + 1, piece, first)
                                  : from(step + 1, to_mapped(piece), first);
        };
        if (!s.use_regex) return next(text, at_start);
        for (size_t at = 0; at < text.size();) {
            const size_t end = scan_piece(Family::gpt2, text, at);
            BIFOCAL_TRY_STATUS(next(text.substr(at, end - at), at_start && at == 0));
            at = end;
        }
        return {};
    }

    Status apply(const DigitsStep& s, size_t step, std::string_view text, bool at_start) {
        std::vector<Span> spans = divide_chars(text, unicode::is_digit);
        apply_behavior(spans, s.individual ? Behavior::isolated : Behavior::contiguous);
        return parts(spans, step, text, at_start);
    }

    Status apply(const MetaspaceStep& s, size_t step, std::string_view text, bool at_start) {
        std::string marked;
        marked.reserve(text.size() + text.size() / 2 + s.replacement.size());
        for (const char c : text) {
            if (c == ' ') {
                marked += s.replacement;
            } else {
                marked += c;
            }
        }
        const bool prepend =
            s.scheme == PrependScheme::always || (s.scheme == PrependScheme::first && at_start);
        if (prepend && !marked.starts_with(s.replacement)) marked.insert(0, s.replacement);
        if (!s.split) return from(step + 1, marked, at_start);
        BIFOCAL_TRY(std::vector<Span> spans, divide(Pattern::from_literal(s.replacement), marked));
        apply_behavior(spans, Behavior::merged_with_next);
        return parts(spans, step, marked, at_start);
    }

    Status apply(const PunctuationStep& s, size_t step, std::string_view text, bool at_start) {
        std::vector<Span> spans = divide_chars(text, is_punctuation);
        apply_behavior(spans, s.behavior);
        return parts(spans, step, text, at_start);
    }

    Status apply(const WhitespaceStep& s, size_t step, std::string_view text, bool at_start) {
        // Runs of one class: 0 white space, which is dropped, 1 word, 2 other.
        const auto class_at = [&](const unicode::Decoded& c) {
            if (unicode::is_space(c.code_point)) return 0;
            return s.words_and_symbols && !unicode::is_word(c.code_point) ? 2 : 1;
        };
        for (size_t at = 0; at < text.size();) {
            const size_t begin = at;
            const int kind = class_at(unicode::decode(text, at));
            while (at < text.size()) {
                const unicode::Decoded c = unicode::decode(text, at);
                if (class_at(c) != kind) break;
                at += c.bytes;
            }
            if (kind == 0) continue;
            BIFOCAL_TRY_STATUS(
                from(step + 1, text.substr(begin, at - begin), at_start && begin == 0));
        }
        return {};
    }

    const PreTokenizer& pre_;
    const PreTokenizer::Sink& sink_;
};

}  // namespace

Status PreTokenizer::apply(std::string_view text, bool at_start, const Sink& sink) const {
    return Walk(*this, sink).from(0, text, at_start);
}

}  // namespace bifocal::tokenizer
