// One block a component, in the order of their types' names in the format.
#include "formats/tokenizer/json_components.h"

#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxSteps = 64;

Error unknown(const JsonObject& json, std::string_view kind, const std::string& type,
              std::string known) {
    return tokenizer_error("unknown " + std::string(kind), json.where(), std::move(known),
                           "'" + type + "'");
}

Status check_size(const JsonObject& json, int depth, size_t steps) {
    if (depth < kMaxDepth && steps < kMaxSteps) return {};
    return tokenizer_error(
        "too many components", json.where(),
        "at most " + std::to_string(kMaxSteps) + ", " + std::to_string(kMaxDepth) + " deep");
}

// {"String": "literal"} or {"Regex": "expression"}.
Result<Pattern> read_pattern(const JsonObject& json) {
    BIFOCAL_TRY(const JsonObject pattern, json.child("pattern"));
    if (pattern.find("Regex")) {
        BIFOCAL_TRY(const std::string text, pattern.string("Regex"));
        return Pattern::from_regex(text, pattern.where());
    }
    BIFOCAL_TRY(std::string text, pattern.string("String"));
    if (text.empty()) {
        return tokenizer_error("empty pattern", pattern.where(), "at least one character");
    }
    return Pattern::from_literal(std::move(text));
}

Result<Behavior> read_behavior(const JsonObject& json, std::optional<std::string> otherwise) {
    BIFOCAL_TRY(const std::string name, json.string("behavior", std::move(otherwise)));
    if (name == "Isolated") return Behavior::isolated;
    if (name == "Removed") return Behavior::removed;
    if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
    if (name == "MergedWithNext") return Behavior::merged_with_next;
    if (name == "Contiguous") return Behavior::contiguous;
    return tokenizer_error("unknown behavior", json.where(),
                           "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous",
                           "'" + name + "'");
}

Result<std::string> read_character(const JsonObject& json, std::string_view key,
                                   std::optional<std::string> otherwise = std::nullopt) {
    BIFOCAL_TRY(std::string text, json.string(key, std::move(otherwise)));
    const bool one = !text.empty() && unicode::scan(text, 0).bytes == static_cast<int>(text.size());
    if (!one) {
        return tokenizer_error("wrong value", json.where() + ", " + std::string(key),
                               "one character", "'" + text + "'");
    }
    return text;
}

Result<PrependScheme> read_prepend_scheme(const JsonObject& json) {
    BIFOCAL_TRY(std::string scheme, json.string("prepend_scheme", "always"));
    // Older files say it with a boolean.
    BIFOCAL_TRY(const bool prefix, json.boolean("add_prefix_space", true));
    if (!prefix) scheme = "never";
    if (scheme == "first") return PrependScheme::first;
    if (scheme == "never") return PrependScheme::never;
    if (scheme == "always") return PrependScheme::always;
    return tokenizer_error("unknown prepend_scheme", json.where(), "first, never or always",
                           "'" + scheme + "'");
}

}  // namespace

Status read_normalizer(const JsonObject& json, Normalizer& out, int depth) {
    BIFOCAL_TRY_STATUS(check_size(json, depth, out.steps.size()));
    BIFOCAL_TRY(const std::string type, json.string("type"));
    if (type == "Sequence") {
        BIFOCAL_TRY(const auto children, json.children("normalizers"));
        for (const JsonObject& child : children) {
            BIFOCAL_TRY_STATUS(read_normalizer(child, out, depth + 1));
        }
    } else if (type == "NFC") {
        out.steps.push_back(unicode::Form::nfc);
    } else if (type == "NFD") {
        out.steps.push_back(unicode::Form::nfd);
    } else if (type == "NFKC") {
        out.steps.push_back(unicode::Form::nfkc);
    } else if (type == "NFKD") {
        out.steps.push_back(unicode::Form::nfkd);
    } else if (type == "Lowercase") {
        out.steps.push_back(LowercaseNormalizer{});
    } else if (type == "Prepend") {
        BIFOCAL_TRY(std::string text, json.string("prepend"));
        out.steps.push_back(PrependNormalizer{std::move(text)});
    } else if (type == "Replace") {
        BIFOCAL_TRY(Pattern pattern, read_pattern(json));
        BIFOCAL_TRY(std::string content, json.string("content"));
        out.steps.push_back(ReplaceNormalizer{std::move(pattern), std::move(content)});
    } else if (type == "Strip") {
        BIFOCAL_TRY(const bool left, json.boolean("strip_left"));
        BIFOCAL_TRY(const bool right, json.boolean("strip_right"));
        out.steps.push_back(StripNormalizer{left, right});
    } else {
        return unknown(json, "normalizer", type,
                       "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip or Sequence");
    }
    return {};
}

Status read_pre_tokenizer(const JsonObject& json, PreTokenizer& out, int depth) {
    BIFOCAL_TRY_STATUS(check_size(json, depth, out.steps.size()));
    BIFOCAL_TRY(const std::string type, json.string("type"));
    if (type == "Sequence") {
        BIFOCAL_TRY(const auto children, json.children("pretokenizers"));
        for (const JsonObject& child : children) {
            BIFOCAL_TRY_STATUS(read_pre_tokenizer(child, out, depth + 1));
        }
    } else if (type == "ByteLevel") {
        BIFOCAL_TRY(const bool add_prefix_space, json.boolean("add_prefix_space", true));
        BIFOCAL_TRY(const bool use_regex, json.boolean("use_regex", true));
        out.steps.push_back(ByteLevelStep{add_prefix_space, use_regex});
    } else if (type == "Split") {
        BIFOCAL_TRY(Pattern pattern, read_pattern(json));
        BIFOCAL_TRY(const Behavior behavior, read_behavior(json, std::nullopt));
        BIFOCAL_TRY(const bool invert, json.boolean("invert", false));
        out.steps.push_back(SplitStep{std::move(pattern), behavior, invert});
    } else if (type == "Digits") {
        BIFOCAL_TRY(const bool individual, json.boolean("individual_digits", false));
        out.steps.push_back(DigitsStep{individual});
    } else if (type == "Metaspace") {
        BIFOCAL_TRY(std::string replacement, read_character(json, "replacement", "\xE2\x96\x81"));
        BIFOCAL_TRY(const PrependScheme scheme, read_prepend_scheme(json));
        BIFOCAL_TRY(const bool split, json.boolean("split", true));
        out.steps.push_back(MetaspaceStep{std::move(replacement), scheme, split});
    } else if (type == "Punctuation") {
        BIFOCAL_TRY(const Behavior behavior, read_behavior(json, "Isolated"));
        out.steps.push_back(PunctuationStep{behavior});
    } else if (type == "Whitespace" || type == "WhitespaceSplit") {
        out.steps.push_back(WhitespaceStep{type == "Whitespace"});
    } else {
        return unknown(json, "pre-tokenizer", type,
                       "ByteLevel, Split, Digits, Metaspace, Punctuation, Whitespace, "
                       "WhitespaceSplit or Sequence");
    }
    if (depth == 0) {
        int byte_levels = 0;
        for (const PreTokenizerStep& step : out.steps) {
            byte_levels += std::holds_alternative<ByteLevelStep>(step) ? 1 : 0;
        }
        out.raw_bytes = byte_levels == 1 && std::holds_alternative<ByteLevelStep>(out.steps.back());
    }
    return {};
}

Status read_decoder(const JsonObject& json, Decoder& out, int depth) {
    BIFOCAL_TRY_STATUS(check_size(json, depth, out.steps.size()));
    BIFOCAL_TRY(const std::string type, json.string("type"));
    if (type == "Sequence") {
        BIFOCAL_TRY(const auto children, json.children("decoders"));
        for (const JsonObject& child : children) {
            BIFOCAL_TRY_STATUS(read_decoder(child, out, depth + 1));
        }
    } else if (type == "ByteLevel") {
        out.steps.push_back(ByteLevelDecoder{});
    } else if (type == "ByteFallback") {
        out.steps.push_back(ByteFallbackDecoder{});
    } else if (type == "Fuse") {
        out.steps.push_back(FuseDecoder{});
    } else if (type == "Strip") {
        BIFOCAL_TRY(std::string content, read_character(json, "content"));
        BIFOCAL_TRY(const int64_t start, json.integer("start"));
        BIFOCAL_TRY(const int64_t stop, json.integer("stop"));
        if (start < 0 || stop < 0 || start > 1024 || stop > 1024) {
            return tokenizer_error("value out of range", json.where(), "start and stop in 0..1024");
        }
        out.steps.push_back(
            StripDecoder{std::move(content), static_cast<int>(start), static_cast<int>(stop)});
    } else if (type == "Replace") {
        BIFOCAL_TRY(Pattern pattern, read_pattern(json));
        BIFOCAL_TRY(std::string content, json.string("content"));
        out.steps.push_back(ReplaceDecoder{std::move(pattern), std::move(content)});
    } else if (type == "Metaspace") {
        BIFOCAL_TRY(std::string replacement, read_character(json, "replacement", "\xE2\x96\x81"));
        BIFOCAL_TRY(const PrependScheme scheme, read_prepend_scheme(json));
        out.steps.push_back(
            MetaspaceDecoder{std::move(replacement), scheme != PrependScheme::never});
    } else {
        return unknown(json, "decoder", type,
                       "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace or Sequence");
    }
    if (depth == 0) {
        int holding = 0;
        for (const DecoderStep& step : out.steps) {
            holding += std::holds_alternative<ByteLevelDecoder>(step) ||
                               std::holds_alternative<ByteFallbackDecoder>(step)
                           ? 1
                           : 0;
        }
        if (holding > 1) {
            return tokenizer_error("unsupported decoder", json.where(),
                                   "at most one of ByteLevel and ByteFallback",
                                   std::to_string(holding));
        }
    }
    return {};
}

namespace {

// The "single" template: special tokens around one sequence.
Status read_template(const JsonObject& json, Parts& parts) {
    BIFOCAL_TRY(const auto items, json.children("single"));
    bool behind = false;
    for (const JsonObject& item : items) {
        if (item.find("Sequence")) {
            if (behind) {
                return tokenizer_error("unsupported template", json.where(),
                                       "one sequence in 'single'");
            }
            behind = true;
            continue;
        }
        BIFOCAL_TRY(const JsonObject special, item.child("SpecialToken"));
        BIFOCAL_TRY(const std::string name, special.string("id"));
        BIFOCAL_TRY(const JsonObject all, json.child("special_tokens"));
        BIFOCAL_TRY(const JsonObject entry, all.child(name));
        BIFOCAL_TRY(const JsonElement ids, entry.require("ids"));
        simdjson::dom::array array;
        if (ids.get_array().get(array) != simdjson::SUCCESS) return entry.wrong("ids", "an array");
        for (const JsonElement element : array) {
            int64_t id = -1;
            const bool integer = element.get_int64().get(id) == simdjson::SUCCESS;
            if (!integer || id < 0 || id >= static_cast<int64_t>(parts.tokens.size())) {
                return tokenizer_error(
                    "special token id out of range", entry.where() + ", ids",
                    "0.." + std::to_string(parts.tokens.size() - 1),
                    integer ? std::to_string(id) : std::string(json_kind(element)));
            }
            (behind ? parts.suffix : parts.prefix).push_back(static_cast<int32_t>(id));
        }
    }
    if (!behind) {
        return tokenizer_error("unsupported template", json.where(), "a sequence in 'single'");
    }
    return {};
}

}  // namespace

Status read_post_processor(const JsonObject& json, Parts& parts, int depth) {
    BIFOCAL_TRY_STATUS(check_size(json, depth, parts.prefix.size()));
    BIFOCAL_TRY(const std::string type, json.string("type"));
    if (type == "Sequence") {
        BIFOCAL_TRY(const auto children, json.children("processors"));
        for (const JsonObject& child : children) {
            BIFOCAL_TRY_STATUS(read_post_processor(child, parts, depth + 1));
        }
        return {};
    }
    if (type == "ByteLevel") return {};  // moves offsets only
    if (type == "TemplateProcessing") {
        // A second template wraps what the first made.
        const std::vector<int32_t> prefix = std::move(parts.prefix);
        const std::vector<int32_t> suffix = std::move(parts.suffix);
        parts.prefix.clear();
        parts.suffix.clear();
        BIFOCAL_TRY_STATUS(read_template(json, parts));
        parts.prefix.insert(parts.prefix.end(), prefix.begin(), prefix.end());
        parts.suffix.insert(parts.suffix.begin(), suffix.begin(), suffix.end());
        return {};
    }
    return unknown(json, "post-processor", type, "TemplateProcessing, ByteLevel or Sequence");
}

}  // namespace bifocal::tokenizer
