// Pre-tokenizers: cutting normalised text into the pieces that are encoded one by one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/pattern.h"

namespace bifocal::tokenizer {

struct SplitStep {
    Pattern pattern;
    Behavior behavior = Behavior::isolated;
    bool invert = false;
};
struct ByteLevelStep {
    bool add_prefix_space = true;
    bool use_regex = true;
};
struct DigitsStep {
    bool individual = false;
};
enum class PrependScheme { first, never, always };
struct MetaspaceStep {
    std::string replacement = "\xE2\x96\x81";
    PrependScheme scheme = PrependScheme::always;
    bool split = true;
};
struct PunctuationStep {
    Behavior behavior = Behavior::isolated;
};
struct WhitespaceStep {
    bool words_and_symbols;  // \w+|[^\w\s]+, else everything between white space
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, DigitsStep, MetaspaceStep,
                                      PunctuationStep, WhitespaceStep>;

struct PreTokenizer {
    std::vector<PreTokenizerStep> steps;
    // Set when the last step is ByteLevel and no other is: its mapping of bytes is left to the
    // model, which then takes pieces as raw bytes.
    bool raw_bytes = false;

    using Sink = std::function<void(std::string_view)>;
    // `at_start`: the text begins where the whole input begins. REQUIRES: valid UTF-8.
    Status apply(std::string_view text, bool at_start, const Sink& sink) const;
};

}  // namespace bifocal::tokenizer
