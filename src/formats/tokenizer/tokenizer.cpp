// Encoding and decoding with loaded parts.
#include "formats/tokenizer/tokenizer.h"

#include <algorithm>

#include "formats/tokenizer/parts.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

using Run = AddedTokenMatcher::Run;

// The runs inside [begin, end), counted from begin.
std::vector<Run> clip(const std::vector<Run>& runs, size_t begin, size_t end) {
    std::vector<Run> inside;
    for (const Run& run : runs) {
        const size_t from = std::max(run.begin, begin), to = std::min(run.end, end);
        if (from < to) inside.push_back({from - begin, to - begin, run.specials});
    }
    return inside;
}

class Encoder {
  public:
    explicit Encoder(const Parts& parts) : parts_(parts) {}

    Status encode(std::string_view text, const std::vector<Run>& runs) {
        for (const Stretch& stretch : parts_.raw_matcher.divide(text, runs)) {
            if (stretch.id) {
                ids.push_back(*stretch.id);
                continue;
            }
            const std::vector<Run> inside = clip(runs, stretch.begin, stretch.end);
            const std::string_view part = text.substr(stretch.begin, stretch.end - stretch.begin);
            BIFOCAL_TRY_STATUS(stretch_of_text(part, inside, stretch.begin == 0));
        }
        return {};
    }

    std::vector<int32_t> ids;

  private:
    Status stretch_of_text(std::string_view text, const std::vector<Run>& runs, bool at_start) {
        if (parts_.normalizer.steps.empty()) return normal_text(text, runs, at_start);
        // Normalisation loses the borders of runs; where they matter, it is done run by run.
        if (parts_.normalized_specials && runs.size() > 1) {
            for (const Run& run : runs) {
                const std::string_view part = text.substr(run.begin, run.end - run.begin);
                BIFOCAL_TRY_STATUS(normalize(part, run.specials, at_start && run.begin == 0));
            }
            return {};
        }
        return normalize(text, !runs.empty() && runs[0].specials, at_start);
    }

    Status normalize(std::string_view text, bool specials, bool at_start) {
        BIFOCAL_TRY(const std::string normal, parts_.normalizer.apply(text, at_start));
        return normal_text(normal, {{0, normal.size(), specials}}, at_start);
    }

    Status normal_text(std::string_view text, const std::vector<Run>& runs, bool at_start) {
        if (parts_.normalized_matcher.empty()) return pieces(text, at_start);
        for (const Stretch& stretch : parts_.normalized_matcher.divide(text, runs)) {
            if (stretch.id) {
                ids.push_back(*stretch.id);
                continue;
            }
            BIFOCAL_TRY_STATUS(pieces(text.substr(stretch.begin, stretch.end - stretch.begin),
                                      at_start && stretch.begin == 0));
        }
        return {};
    }

    Status pieces(std::string_view text, bool at_start) {
        return parts_.pre_tokenizer.apply(
            text, at_start, [this](std::string_view piece) { parts_.bpe->encode(piece, ids); });
    }

    const Parts& parts_;
};

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts)
    : parts_(std::move(parts)), special_(parts_->special) {}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
    const TextSegment segment{text, false};
    return encode_segments({&segment, 1}, options);
}

Result<std::vector<int32_t>> Tokenizer::encode_segments(std::span<const TextSegment> segments,
                                                        const EncodeOptions& options) const {
    std::string joined;
    std::string_view text;
    std::vector<Run> runs;
    size_t total = 0;
    for (const TextSegment& segment : segments) {
        total += segment.text.size();
        const size_t invalid = unicode::find_invalid(segment.text);
        const bool specials = options.parse_special && !segment.from_user;
        std::string repaired;
        std::string_view part = segment.text;
        if (invalid != std::string_view::npos) {
            if (options.reject_invalid) {
                return tokenizer_error(
                    "invalid UTF-8", "text, byte " + std::to_string(total - part.size() + invalid));
            }
            repaired = unicode::replace_invalid(part);
            part = repaired;
        }
        if (segments.size() == 1 && repaired.empty()) {
            text = part;
        } else {
            joined += part;
            text = joined;
        }
        if (!runs.empty() && runs.back().specials == specials) {
            runs.back().end = text.size();
        } else if (!part.empty()) {
            runs.push_back({runs.empty() ? 0 : runs.back().end, text.size(), specials});
        }
    }
    if (text.size() > kMaxTextBytes) {
        return tokenizer_error("text too long", "tokenizer",
                               "at most " + std::to_string(kMaxTextBytes) + " bytes",
                               std::to_string(text.size()));
    }
    Encoder encoder(*parts_);
    if (options.add_special) encoder.ids = parts_->prefix;
    BIFOCAL_TRY_STATUS(encoder.encode(text, runs));
    if (options.add_special) {
        encoder.ids.insert(encoder.ids.end(), parts_->suffix.begin(), parts_->suffix.end());
    }
    return std::move(encoder.ids);
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
        if (!has_token(ids[i])) {
            return tokenizer_error("no token has this id", "position " + std::to_string(i),
                                   "0.." + std::to_string(vocab_size() - 1),
                                   std::to_string(ids[i]));
        }
        if (skip_special && is_special(ids[i])) continue;
        tokens.emplace_back(token(ids[i]));
    }
    return parts_->decoder.decode(std::move(tokens));
}

bool Tokenizer::has_token(int32_t id) const {
    return id >= 0 && id < vocab_size() && (parts_->in_model[id] || !parts_->tokens[id].empty());
}

std::string_view Tokenizer::token(int32_t id) const {
    if (!has_token(id)) return {};
    const auto normal = parts_->normal_contents.find(id);
    return normal == parts_->normal_contents.end() ? parts_->tokens[id] : normal->second;
}

std::string Tokenizer::token_bytes(int32_t id) const {
    return parts_->decoder.bytes_of(token(id));
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
    const auto added = parts_->added_ids.find(std::string(token));
    if (added != parts_->added_ids.end()) return added->second;
    return parts_->bpe->find(token);
}

bool Tokenizer::is_special(int32_t id) const {
    return id >= 0 && id < vocab_size() && parts_->is_special[id];
}

bool Tokenizer::is_stop(int32_t id) const {
    return std::find(special_.stops.begin(), special_.stops.end(), id) != special_.stops.end();
}

int32_t Tokenizer::vocab_size() const {
    return static_cast<int32_t>(parts_->tokens.size());
}

bool Tokenizer::adds_bos() const {
    return !parts_->prefix.empty() && special_.bos == parts_->prefix.front();
}

const std::vector<std::string>& Tokenizer::warnings() const {
    return parts_->warnings;
}
uint64_t Tokenizer::identity() const {
    return parts_->identity;
}
const Decoder& Tokenizer::decoder() const {
    return parts_->decoder;
}

StreamingDecoder::StreamingDecoder(Tokenizer tokenizer, bool continues, bool skip_special)
    : tokenizer_(std::move(tokenizer)) {
    state_.any_token = state_.any_text = continues;
    state_.skip_special = skip_special;
}

std::string StreamingDecoder::push(int32_t id) {
    if (!tokenizer_.has_token(id)) return {};
    if (state_.skip_special && tokenizer_.is_special(id)) return {};
    auto text = tokenizer_.decoder().push(state_, tokenizer_.token(id));
    return text ? std::move(*text) : std::string();
}

std::string StreamingDecoder::flush() {
    auto text = tokenizer_.decoder().flush(state_);
    return text ? std::move(*text) : std::string();
}

}  // namespace bifocal::tokenizer
