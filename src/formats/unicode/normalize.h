// Unicode normalisation forms and lower case, as the tokenizers library has them.
#pragma once

#include <string>
#include <string_view>

namespace bifocal::unicode {

enum class Form { nfc, nfd, nfkc, nfkd };

// REQUIRES: valid UTF-8.
std::string normalize(std::string_view text, Form form);
std::string lowercase(std::string_view text);

}  // namespace bifocal::unicode
