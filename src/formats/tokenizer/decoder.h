// Decoders: from token texts back to text, all at once or token by token.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/pattern.h"

namespace bifocal::tokenizer {

struct ByteLevelDecoder {};
struct ByteFallbackDecoder {};
struct FuseDecoder {};
struct StripDecoder {
    std::string content;  // one character
    int start = 0, stop = 0;
};
struct ReplaceDecoder {
    Pattern pattern;
    std::string content;
};
struct MetaspaceDecoder {
    std::string replacement;  // one character
    bool prepended = true;    // the first token's leading replacement is no space
};
using DecoderStep = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder,
                                 ReplaceDecoder, MetaspaceDecoder>;

// What a streaming decoder remembers between tokens. Plain data: snapshots store it.
struct StreamState {
    std::string pending;     // bytes of a character not yet whole; at most 3
    bool any_token = false;  // a token was decoded
    bool any_text = false;   // text came out behind the fusing step
    bool skip_special = true;

    bool operator==(const StreamState&) const = default;
};

struct Decoder {
    std::vector<DecoderStep> steps;

    // The text of a whole sequence, exactly as the tokenizers library gives it.
    Result<std::string> decode(std::vector<std::string> tokens) const;

    // The text that `token` completes. The concatenation over all tokens and flush() is decode()'s
    // text, with two differences, both in runs of <0xHH> tokens or at the end: characters completed
    // before an ill-formed byte stay as they are, and a Strip of the end is not applied.
    Result<std::string> push(StreamState& state, std::string_view token) const;
    Result<std::string> flush(StreamState& state) const;

    // The bytes of one token by itself: inside a sequence, not stripped.
    std::string bytes_of(std::string_view token) const;

  private:
    Result<std::string> stream_from(size_t step, StreamState& state, std::string text,
                                    bool ends) const;
};

}  // namespace bifocal::tokenizer
