// Bytes as a tokenizer.json: load it, encode nasty texts, decode ids, stream them. Whatever the
// file says, there are only errors and texts.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "formats/tokenizer/tokenizer.h"
#include "formats/unicode/utf8.h"

using bifocal::tokenizer::StreamingDecoder;
using bifocal::tokenizer::TextSegment;
using bifocal::tokenizer::Tokenizer;

namespace {

constexpr std::string_view kTexts[] = {
    "",
    " ",
    "I'd've 1234  x\n\n y\t\xE2\x96\x81 <s> <|im_start|> a\xCC\x81\xE2\x81\x84 "
    "A\xE4\xB8\xAD\xF0\x9F\x98\x80",
    "\xFF\xE2\x82 aaaaaaaaaaaaaaaa bbbb",
};

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view json(reinterpret_cast<const char*>(data), size);
    auto tokenizer = Tokenizer::from_json(json, "fuzz");
    if (!tokenizer) {
        require(tokenizer.error().message().find('\n') == std::string::npos);
        return 0;
    }
    for (const std::string_view text : kTexts) {
        auto ids = tokenizer->encode(text);
        if (!ids) continue;
        StreamingDecoder stream(*tokenizer);
        std::string streamed;
        for (const int32_t id : *ids) {
            require(id >= 0 && id < tokenizer->vocab_size());
            const std::string piece = stream.push(id);
            require(bifocal::unicode::is_valid(piece));
            streamed += piece;
        }
        streamed += stream.flush();
        require(bifocal::unicode::is_valid(streamed));
        auto whole = tokenizer->decode(*ids);
        require(!whole || bifocal::unicode::is_valid(*whole));
        const TextSegment segments[] = {{text, false}, {text, true}};
        (void)tokenizer->encode_segments(segments, {.parse_special = false});
    }
    // The end of the vocabulary, which few texts reach.
    for (int32_t id = tokenizer->vocab_size() - 1; id >= 0 && id > tokenizer->vocab_size() - 8;
         --id) {
        (void)tokenizer->token_bytes(id);
        (void)tokenizer->is_special(id);
    }
    return 0;
}
