// One visitor, one case a step.
#include "formats/tokenizer/normalizer.h"

#include "formats/unicode/category.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

struct Apply {
    std::string text;
    bool& at_start;

    Status operator()(unicode::Form form) {
        text = unicode::normalize(text, form);
        return {};
    }
    Status operator()(const PrependNormalizer& step) {
        if (!text.empty()) text.insert(0, step.text);
        return {};
    }
    Status operator()(const ReplaceNormalizer& step) {
        BIFOCAL_TRY(text, replace_all(step.pattern, text, step.content));
        return {};
    }
    Status operator()(const LowercaseNormalizer&) {
        text = unicode::lowercase(text);
        return {};
    }
    Status operator()(const StripNormalizer& step) {
        size_t begin = 0, end = text.size();
        while (step.left && begin < end) {
            const unicode::Decoded c = unicode::decode(text, begin);
            if (!unicode::is_space(c.code_point)) break;
            begin += c.bytes;
        }
        while (step.right && begin < end) {
            const unicode::Decoded c = unicode::decode_before(text, end);
            if (!unicode::is_space(c.code_point)) break;
            end -= c.bytes;
        }
        if (begin > 0) at_start = false;
        text = text.substr(begin, end - begin);
        return {};
    }
};

}  // namespace

Result<std::string> Normalizer::apply(std::string_view text, bool& at_start) const {
    Apply apply{std::string(text), at_start};
    for (const NormalizerStep& step : steps) BIFOCAL_TRY_STATUS(std::visit(apply, step));
    return std::move(apply.text);
}

}  // namespace bifocal::tokenizer
