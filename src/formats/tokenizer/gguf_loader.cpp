// From tokenizer.ggml.* metadata to a Tokenizer: byte-level BPE with merges ("gpt2") and
// SentencePiece BPE with scores ("llama").
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/tokenizer/parts.h"
#include "formats/tokenizer/pre_names.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

constexpr std::string_view kMarker = "\xE2\x96\x81";

// Control tokens that end a turn in well-known chat formats, for files that name only one of them.
constexpr std::array<std::string_view, 8> kTurnEnds = {
    "<|im_end|>", "<|eot_id|>",    "<|eom_id|>", "<|end|>",
    "<|return|>", "<end_of_turn>", "<|eot|>",    "<|endoftext|>"};

TokenType type_of(const GgufVocab& vocab, size_t id) {
    return vocab.token_type.empty() ? TokenType::normal
                                    : static_cast<TokenType>(vocab.token_type[id]);
}

std::string token_place(const std::string& where, size_t id) {
    return fmt::format("{}, tokenizer.ggml.tokens[{}]", where, id);
}

Status check_lengths(const GgufVocab& vocab, const std::string& where) {
    const size_t count = vocab.tokens.size();
    if (count == 0 || count > static_cast<size_t>(kMaxVocab)) {
        return tokenizer_error("vocabulary size out of range", where + ", tokenizer.ggml.tokens",
                               fmt::format("1..{}", kMaxVocab), std::to_string(count));
    }
    if (!vocab.token_type.empty() && vocab.token_type.size() != count) {
        return tokenizer_error("wrong length", where + ", tokenizer.ggml.token_type",
                               std::to_string(count), std::to_string(vocab.token_type.size()));
    }
    for (size_t id = 0; id < vocab.token_type.size(); ++id) {
        if (vocab.token_type[id] < 1 || vocab.token_type[id] > 6) {
            return tokenizer_error("unknown token type",
                                   fmt::format("{}, tokenizer.ggml.token_type[{}]", where, id),
                                   "1..6", std::to_string(vocab.token_type[id]));
        }
    }
    if (!vocab.scores.empty() && vocab.scores.size() != count) {
        return tokenizer_error("wrong length", where + ", tokenizer.ggml.scores",
                               std::to_string(count), std::to_string(vocab.scores.size()));
    }
    return {};
}

Status read_tokens(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    parts.tokens = vocab.tokens;
    parts.in_model.assign(vocab.tokens.size(), false);
    for (size_t id = 0; id < vocab.tokens.size(); ++id) {
        const std::string& token = vocab.tokens[id];
        if (!unicode::is_valid(token) || token.size() > kMaxTokenBytes) {
            return tokenizer_error("unusable token", token_place(where, id),
                                   fmt::format("UTF-8 of at most {} bytes", kMaxTokenBytes));
        }
        const TokenType type = type_of(vocab, id);
        const bool control = type == TokenType::control || type == TokenType::unknown;
        parts.in_model[id] = !token.empty() && !control;
        if (control || type == TokenType::user_defined) {
            AddedToken added;
            added.id = static_cast<int32_t>(id);
            added.content = token;
            added.special = control;
            // Padding vocabularies repeat filler tokens; the first one keeps the name.
            if (parts.added_ids.contains(token)) continue;
            BIFOCAL_TRY_STATUS(parts.add_token(std::move(added), where));
        }
    }
    return {};
}

Result<std::optional<int32_t>> read_id(std::optional<int64_t> id, std::string_view key,
                                       const Parts& parts, const std::string& where) {
    if (!id) return std::optional<int32_t>();
    if (*id < 0 || *id >= static_cast<int64_t>(parts.tokens.size())) {
        return tokenizer_error("token id out of range",
                               fmt::format("{}, tokenizer.ggml.{}_token_id", where, key),
                               fmt::format("0..{}", parts.tokens.size() - 1), std::to_string(*id));
    }
    return std::optional<int32_t>(static_cast<int32_t>(*id));
}

Status read_special_ids(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    SpecialIds& special = parts.special;
    BIFOCAL_TRY(special.bos, read_id(vocab.bos, "bos", parts, where));
    BIFOCAL_TRY(special.eos, read_id(vocab.eos, "eos", parts, where));
    BIFOCAL_TRY(special.unk, read_id(vocab.unk, "unknown", parts, where));
    BIFOCAL_TRY(special.pad, read_id(vocab.pad, "padding", parts, where));
    BIFOCAL_TRY(const auto eot, read_id(vocab.eot, "eot", parts, where));
    BIFOCAL_TRY(const auto eom, read_id(vocab.eom, "eom", parts, where));
    const auto add_stop = [&](int32_t id) {
        auto& stops = special.stops;
        if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
    };
    for (const auto& id : {special.eos, eot, eom}) {
        if (id) add_stop(*id);
    }
    for (const AddedToken& token : parts.added) {
        const bool ends =
            std::find(kTurnEnds.begin(), kTurnEnds.end(), token.content) != kTurnEnds.end();
        if (token.special && ends) add_stop(token.id);
    }
    return {};
}

// What stands around a text. `otherwise`: whether BOS does when the file does not say.
void read_affixes(const GgufVocab& vocab, Parts& parts, bool otherwise) {
    const SpecialIds& special = parts.special;
    if (vocab.add_bos.value_or(otherwise) && special.bos) parts.prefix = {*special.bos};
    if (vocab.add_eos.value_or(false) && special.eos) parts.suffix = {*special.eos};
}

Status read_merges(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    std::unordered_map<std::string_view, int32_t> ids;
    ids.reserve(parts.tokens.size());
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
        ids.emplace(parts.tokens[id], static_cast<int32_t>(id));
    }
    std::string joined;
    for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
        const std::string_view line = vocab.merges[rank];
        const std::string here = fmt::format("{}, tokenizer.ggml.merges[{}]", where, rank);
        const size_t space = line.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == line.size()) {
            return tokenizer_error("bad merge", here, "two tokens with a space between",
                                   "'" + std::string(line) + "'");
        }
        joined.assign(line.substr(0, space));
        joined += line.substr(space + 1);
        int32_t found[3];
        int i = 0;
        for (const std::string_view token :
             {line.substr(0, space), line.substr(space + 1), std::string_view(joined)}) {
            const auto known = ids.find(token);
            if (known == ids.end()) {
                return tokenizer_error("merge names an unknown token", here,
                                       "tokens of the vocabulary", "'" + std::string(token) + "'");
            }
            found[i++] = known->second;
        }
        parts.merges.push_back({found[0], found[1], {static_cast<int32_t>(rank), found[2]}});
    }
    return {};
}

Status load_byte_level(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    const PreName* const pre = find_pre_name(vocab.pre);
    if (!pre) {
        return tokenizer_error("unknown pre-tokenizer", where + ", tokenizer.ggml.pre",
                               "a known name, as smollm, gpt-2, llama-bpe, qwen2, gpt-4o, tekken",
                               "'" + vocab.pre + "'");
    }
    if (pre->name.empty() || pre->name == "default") {
        parts.warnings.push_back(where +
                                 ": no tokenizer.ggml.pre; text is cut as for gpt-2, which may "
                                 "lower the quality");
    }
    if (pre->nfc && vocab.nfc) parts.normalizer.steps.push_back(unicode::Form::nfc);
    if (pre->digits_first) parts.pre_tokenizer.steps.push_back(DigitsStep{true});
    parts.pre_tokenizer.steps.push_back(
        SplitStep{Pattern::from_family(pre->family), Behavior::isolated, false});
    parts.pre_tokenizer.steps.push_back(ByteLevelStep{false, false});
    parts.pre_tokenizer.raw_bytes = true;
    parts.decoder.steps.push_back(ByteLevelDecoder{});
    parts.options.ignore_merges = pre->ignore_merges;
    BIFOCAL_TRY_STATUS(read_merges(vocab, parts, where));
    read_affixes(vocab, parts, pre->add_bos);
    return {};
}

// Every way to split a token into two tokens is a merge; the higher the token's score, the sooner,
// and equal scores go from left to right.
Status merges_from_scores(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    if (vocab.scores.empty()) {
        return tokenizer_error("missing key", where + ", tokenizer.ggml.scores",
                               "one score a token");
    }
    std::vector<float> order;
    for (size_t id = 0; id < vocab.scores.size(); ++id) {
        if (std::isnan(vocab.scores[id])) {
            return tokenizer_error("score is not a number",
                                   fmt::format("{}, tokenizer.ggml.scores[{}]", where, id));
        }
        order.push_back(vocab.scores[id]);
    }
    std::sort(order.begin(), order.end(), std::greater<>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::unordered_map<std::string_view, int32_t> ids;
    const auto mergeable = [&](size_t id) {
        const TokenType type = type_of(vocab, id);
        return type == TokenType::normal || type == TokenType::user_defined;
    };
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
        if (mergeable(id)) ids.emplace(parts.tokens[id], static_cast<int32_t>(id));
    }
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
        const std::string_view token = parts.tokens[id];
        // Longer ones would cost quadratic time here and occur in no real vocabulary.
        if (!mergeable(id) || token.size() > 512) continue;
        const auto place =
            std::lower_bound(order.begin(), order.end(), vocab.scores[id], std::greater<>());
        const auto rank = static_cast<int32_t>(place - order.begin());
        for (size_t cut = 1; cut < token.size(); ++cut) {
            const auto left = ids.find(token.substr(0, cut));
            const auto right = ids.find(token.substr(cut));
            if (left == ids.end() || right == ids.end()) continue;
            parts.merges.push_back({left->second, right->second, {rank, static_cast<int32_t>(id)}});
        }
    }
    return {};
}

Status load_sentence_piece(const GgufVocab& vocab, Parts& parts, const std::string& where) {
    const bool prefix = vocab.add_space_prefix.value_or(true);
    if (prefix) parts.normalizer.steps.push_back(PrependNormalizer{std::string(kMarker)});
    parts.normalizer.steps.push_back(
        ReplaceNormalizer{Pattern::from_literal(" "), std::string(kMarker)});
    parts.decoder.steps.push_back(ReplaceDecoder{Pattern::from_literal(std::string(kMarker)), " "});
    parts.decoder.steps.push_back(ByteFallbackDecoder{});
    parts.decoder.steps.push_back(FuseDecoder{});
    if (prefix) parts.decoder.steps.push_back(StripDecoder{" ", 1, 0});
    parts.options.byte_fallback = true;
    parts.options.fuse_unk = true;
    parts.options.unk = parts.special.unk;
    BIFOCAL_TRY_STATUS(merges_from_scores(vocab, parts, where));
    read_affixes(vocab, parts, true);
    return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocab& vocab, const std::string& where) {
    auto parts = std::make_shared<Parts>();
    BIFOCAL_TRY_STATUS(check_lengths(vocab, where));
    if (!vocab.huggingface_json.empty()) {
        BIFOCAL_TRY(Tokenizer tokenizer,
                    from_json(vocab.huggingface_json, where + ", tokenizer.huggingface.json"));
        // The special ids stand in the metadata only.
        parts->tokens = tokenizer.parts_->tokens;
        parts->added = tokenizer.parts_->added;
        BIFOCAL_TRY_STATUS(read_special_ids(vocab, *parts, where));
        tokenizer.set_special(std::move(parts->special));
        return tokenizer;
    }
    BIFOCAL_TRY_STATUS(read_tokens(vocab, *parts, where));
    BIFOCAL_TRY_STATUS(read_special_ids(vocab, *parts, where));
    parts->pipeline = fmt::format("gguf {} {} {} {}", vocab.model, vocab.pre, vocab.nfc,
                                  vocab.add_space_prefix.value_or(true));
    if (vocab.model == "gpt2") {
        BIFOCAL_TRY_STATUS(load_byte_level(vocab, *parts, where));
    } else if (vocab.model == "llama") {
        BIFOCAL_TRY_STATUS(load_sentence_piece(vocab, *parts, where));
    } else {
        return tokenizer_error("unsupported tokenizer", where + ", tokenizer.ggml.model",
                               "'gpt2' or 'llama'", "'" + vocab.model + "'");
    }
    BIFOCAL_TRY_STATUS(parts->finish(where));
    return Tokenizer(std::move(parts));
}

}  // namespace bifocal::tokenizer
