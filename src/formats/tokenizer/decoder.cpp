// Whole sequences. Each step maps a list of texts to a list of texts, as in the reference.
#include "formats/tokenizer/decoder.h"

#include "formats/tokenizer/byte_map.h"
#include "formats/tokenizer/decode_steps.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {

std::optional<uint8_t> byte_token(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
        int digit = 0;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'A' && c <= 'F') {
            digit = c - 'A' + 10;
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        } else {
            return std::nullopt;
        }
        value = value * 16 + digit;
    }
    return static_cast<uint8_t>(value);
}

std::string byte_level_bytes(std::string_view token) {
    auto bytes = from_mapped(token);
    return bytes ? std::move(*bytes) : std::string(token);
}

std::string strip(const StripDecoder& step, std::string_view text) {
    for (int i = 0; i < step.start && text.starts_with(step.content); ++i) {
        text.remove_prefix(step.content.size());
    }
    for (int i = 0; i < step.stop && text.ends_with(step.content); ++i) {
        text.remove_suffix(step.content.size());
    }
    return std::string(text);
}

std::string metaspace(const MetaspaceDecoder& step, std::string_view token, bool first) {
    std::string out;
    while (!token.empty()) {
        if (token.starts_with(step.replacement)) {
            if (!first || !step.prepended) out += ' ';
            token.remove_prefix(step.replacement.size());
        } else {
            out += token[0];
            token.remove_prefix(1);
        }
    }
    return out;
}

namespace {

using Texts = std::vector<std::string>;

struct DecodeAll {
    Texts texts;

    Status operator()(const ByteLevelDecoder&) {
        std::string bytes;
        for (const std::string& text : texts) bytes += byte_level_bytes(text);
        texts = {unicode::replace_invalid(bytes)};
        return {};
    }
    Status operator()(const ByteFallbackDecoder&) {
        Texts out;
        std::string run;
        const auto end_run = [&] {
            // One ill-formed byte spoils its whole run.
            if (unicode::is_valid(run)) {
                out.push_back(run);
            } else {
                out.insert(out.end(), run.size(), std::string(unicode::kReplacement));
            }
            run.clear();
        };
        for (std::string& text : texts) {
            if (const auto byte = byte_token(text)) {
                run += static_cast<char>(*byte);
                continue;
            }
            if (!run.empty()) end_run();
            out.push_back(std::move(text));
        }
        if (!run.empty()) end_run();
        texts = std::move(out);
        return {};
    }
    Status operator()(const FuseDecoder&) {
        std::string all;
        for (const std::string& text : texts) all += text;
        texts = {std::move(all)};
        return {};
    }
    Status operator()(const StripDecoder& step) {
        for (std::string& text : texts) text = strip(step, text);
        return {};
    }
    Status operator()(const ReplaceDecoder& step) {
        for (std::string& text : texts) {
            BIFOCAL_TRY(text, replace_all(step.pattern, text, step.content));
        }
        return {};
    }
    Status operator()(const MetaspaceDecoder& step) {
        for (size_t i = 0; i < texts.size(); ++i) texts[i] = metaspace(step, texts[i], i == 0);
        return {};
    }
};

}  // namespace

Result<std::string> Decoder::decode(std::vector<std::string> tokens) const {
    DecodeAll decode{std::move(tokens)};
    for (const DecoderStep& step : steps) BIFOCAL_TRY_STATUS(std::visit(decode, step));
    std::string out;
    for (size_t i = 0; i < decode.texts.size(); ++i) {
        // Without any decoder, tokens are words.
        if (steps.empty() && i > 0) out += ' ';
        out += decode.texts[i];
    }
    return out;
}

}  // namespace bifocal::tokenizer
