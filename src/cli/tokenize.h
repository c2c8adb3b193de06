// `bifocal tokenize`: text to ids and back, apart from the command line so that it can be tested.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/tokenizer.h"

namespace bifocal::cli {

struct TokenizeOptions {
    bool decode = false;        // input is ids, output is text
    bool json = false;          // one object with `ids` and `pieces`
    bool add_special = true;    // what the model puts around a text
    bool parse_special = true;  // control tokens written in the text
};

// What the command prints for `input`. Ill-formed UTF-8 is an error with its offset.
Result<std::string> tokenize(const tokenizer::Tokenizer& tokenizer, std::string_view input,
                             const TokenizeOptions& options);

// Ids from "1, 2 3", from a JSON array, or from a JSON object with `ids`.
Result<std::vector<int32_t>> parse_ids(std::string_view text);

}  // namespace bifocal::cli
