// The method tables that find_method() joins.
#pragma once

#include <string_view>
#include <unordered_map>

#include "formats/template/machine.h"

namespace bifocal::jinja {

const std::unordered_map<std::string_view, Method>& string_methods();

// str.format, with fields by position or name and no format specification.
Text format_braces(Machine& machine, const Text& format, const Args& args);

}  // namespace bifocal::jinja
