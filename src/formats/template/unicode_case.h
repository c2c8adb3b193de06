// Case of text as Python's str methods see it: full mappings, so that one letter may become three.
// The origin of each letter stays with what it becomes.
#pragma once

#include <string_view>

#include "formats/template/text.h"

namespace bifocal::jinja {

Text to_upper(const Text& text);
Text to_lower(const Text& text);
Text to_capitalized(const Text& text);  // first letter in title case, the rest lower
Text to_title(const Text& text);        // str.title(): a word begins after anything without case
Text swap_case(const Text& text);
Text case_fold(const Text& text);

bool is_lower(std::string_view bytes);
bool is_upper(std::string_view bytes);
bool is_title(std::string_view bytes);

}  // namespace bifocal::jinja
