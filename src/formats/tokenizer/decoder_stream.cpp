// Token by token. A character is given out when it is whole, and nothing is ever taken back.
#include <utility>

#include "formats/tokenizer/decode_steps.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

// Moves what is decided out of `pending`: whole characters, and U+FFFD for ill-formed parts; with
// `ends`, also for a character cut off by the end.
std::string take_decided(std::string& pending, bool ends) {
    std::string out;
    size_t at = 0;
    while (at < pending.size()) {
        const unicode::Scanned scanned = unicode::scan(pending, at);
        if (scanned.part == unicode::Part::cut_off && !ends) break;
        if (scanned.part == unicode::Part::character) {
            out.append(pending, at, scanned.bytes);
        } else {
            out += unicode::kReplacement;
        }
        at += scanned.bytes;
    }
    pending.erase(0, at);
    return out;
}

std::string replace_each_byte(std::string& pending) {
    std::string out;
    for (size_t i = 0; i < pending.size(); ++i) out += unicode::kReplacement;
    pending.clear();
    return out;
}

std::string push_byte(std::string& pending, uint8_t byte) {
    pending += static_cast<char>(byte);
    const unicode::Scanned scanned = unicode::scan(pending, 0);
    if (scanned.part == unicode::Part::cut_off) return {};
    if (scanned.part == unicode::Part::ill_formed) return replace_each_byte(pending);
    return std::exchange(pending, {});
}

}  // namespace

// `text` is one token's (or, behind a step that holds bytes back, what came free); `ends` flushes.
Result<std::string> Decoder::stream_from(size_t at, StreamState& state, std::string text,
                                         bool ends) const {
    const bool first = !state.any_token;
    bool fused = false;
    for (size_t i = 0; i < at; ++i) {
        fused = fused || std::holds_alternative<FuseDecoder>(steps[i]) ||
                std::holds_alternative<ByteLevelDecoder>(steps[i]);
    }
    for (size_t i = at; i < steps.size(); ++i) {
        const DecoderStep& step = steps[i];
        if (std::holds_alternative<ByteLevelDecoder>(step)) {
            state.pending += byte_level_bytes(text);
            text = take_decided(state.pending, ends);
            fused = true;
        } else if (std::holds_alternative<ByteFallbackDecoder>(step)) {
            if (const auto byte = byte_token(text)) {
                text = push_byte(state.pending, *byte);
            } else {
                text.insert(0, replace_each_byte(state.pending));
            }
        } else if (std::holds_alternative<FuseDecoder>(step)) {
            fused = true;
        } else if (const auto* s = std::get_if<StripDecoder>(&step)) {
            if (!fused) {
                text = strip(*s, text);
            } else if (!std::exchange(state.any_text, true)) {
                text = strip({s->content, s->start, 0}, text);
            }
        } else if (const auto* r = std::get_if<ReplaceDecoder>(&step)) {
            BIFOCAL_TRY(text, replace_all(r->pattern, text, r->content));
        } else if (const auto* m = std::get_if<MetaspaceDecoder>(&step)) {
            text = metaspace(*m, text, first);
        }
        if (fused && text.empty()) return text;
    }
    if (!text.empty()) state.any_text = true;
    return text;
}

Result<std::string> Decoder::push(StreamState& state, std::string_view token) const {
    std::string text(token);
    if (steps.empty() && state.any_token) text.insert(0, " ");
    auto out = stream_from(0, state, std::move(text), false);
    state.any_token = true;
    return out;
}

Result<std::string> Decoder::flush(StreamState& state) const {
    if (state.pending.empty()) return std::string();
    for (size_t i = 0; i < steps.size(); ++i) {
        if (std::holds_alternative<ByteLevelDecoder>(steps[i])) {
            std::string text = take_decided(state.pending, true);
            return stream_from(i + 1, state, std::move(text), true);
        }
        if (std::holds_alternative<ByteFallbackDecoder>(steps[i])) {
            std::string text = replace_each_byte(state.pending);
            return stream_from(i + 1, state, std::move(text), true);
        }
    }
    return std::string();
}

std::string Decoder::bytes_of(std::string_view token) const {
    std::string text(token);
    for (const DecoderStep& step : steps) {
        if (std::holds_alternative<ByteLevelDecoder>(step)) return byte_level_bytes(text);
        if (std::holds_alternative<ByteFallbackDecoder>(step)) {
            if (const auto byte = byte_token(text)) return std::string(1, static_cast<char>(*byte));
        } else if (const auto* r = std::get_if<ReplaceDecoder>(&step)) {
            auto replaced = replace_all(r->pattern, text, r->content);
            if (replaced) text = std::move(*replaced);
        } else if (const auto* m = std::get_if<MetaspaceDecoder>(&step)) {
            text = metaspace(*m, text, false);
        }
    }
    return text;
}

}  // namespace bifocal::tokenizer
