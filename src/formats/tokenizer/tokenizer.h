// A model's tokenizer: text to ids and back, from a tokenizer.json or from GGUF metadata. Cheap to
// copy, immutable, safe to use from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/decoder.h"
#include "formats/tokenizer/gguf_vocab.h"

namespace bifocal::tokenizer {

struct EncodeOptions {
    bool add_special = true;      // what the model wants around a text (BOS, EOS)
    bool parse_special = true;    // control tokens written in the text become their ids
    bool reject_invalid = false;  // ill-formed UTF-8 is an error; else U+FFFD for each part
};

// Part of a text. Control tokens are recognised in template text only, whatever a user typed.
struct TextSegment {
    std::string_view text;
    bool from_user = false;
};

struct SpecialIds {
    std::optional<int32_t> bos, eos, unk, pad;
    std::vector<int32_t> stops;  // tokens that end a turn or a text; holds eos
};

// Everything a loader fills in (parts.h).
struct Parts;

class Tokenizer {
  public:
    // `path` is a tokenizer.json or a folder with one; BOS and EOS come from a
    // tokenizer_config.json beside it, if there is one.
    static Result<Tokenizer> from_json_file(const std::string& path);
    // `where` names the text in errors.
    static Result<Tokenizer> from_json(std::string_view text, const std::string& where);
    static Result<Tokenizer> from_gguf(const GgufVocab& vocab, const std::string& where);
    explicit Tokenizer(std::shared_ptr<const Parts> parts);

    Result<std::vector<int32_t>> encode(std::string_view text,
                                        const EncodeOptions& options = {}) const;
    // The ids of the joined text: merges reach over the borders of segments as if there were none,
    // but an added token is found inside one side's text only, and a control token in template text
    // only (with options.parse_special).
    Result<std::vector<int32_t>> encode_segments(std::span<const TextSegment> segments,
                                                 const EncodeOptions& options = {}) const;

    // Ids without a token are an error.
    Result<std::string> decode(std::span<const int32_t> ids, bool skip_special = true) const;

    // The vocabulary's own spelling of a token: "Ġthe", "▁the", "<0x0A>"; empty without a token.
    std::string_view token(int32_t id) const;
    // The bytes a token stands for inside a text; may be part of a character.
    std::string token_bytes(int32_t id) const;
    std::optional<int32_t> id_of(std::string_view token) const;
    bool has_token(int32_t id) const;
    bool is_special(int32_t id) const;
    bool is_stop(int32_t id) const;

    // Highest id + 1. A model's logits may be wider (padding).
    int32_t vocab_size() const;
    const SpecialIds& special() const { return special_; }
    void set_special(SpecialIds ids) { special_ = std::move(ids); }
    // Whether add_special puts BOS in front.
    bool adds_bos() const;
    // What is doubtful about the file, one line each; for the user's eyes.
    const std::vector<std::string>& warnings() const;
    // Equal for equal vocabularies, merges and pipelines; snapshots carry it.
    uint64_t identity() const;
    const Decoder& decoder() const;

  private:
    std::shared_ptr<const Parts> parts_;
    SpecialIds special_;
};

// Text as tokens come. Copy the state to save or fork it.
class StreamingDecoder {
  public:
    // With `continues`, ids follow text already decoded, so no leading space is stripped.
    explicit StreamingDecoder(Tokenizer tokenizer, bool continues = false,
                              bool skip_special = true);

    // The text that `id` completes: whole characters only, possibly none.
    std::string push(int32_t id);
    // What is left at the end: U+FFFD for a character that never became whole.
    std::string flush();

    const StreamState& state() const { return state_; }
    void set_state(StreamState state) { state_ = std::move(state); }

  private:
    Tokenizer tokenizer_;
    StreamState state_;
};

}  // namespace bifocal::tokenizer
