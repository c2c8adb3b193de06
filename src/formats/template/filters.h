// What the filter tables and the string methods share.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/template/machine.h"

namespace bifocal::jinja {

const std::unordered_map<std::string_view, Filter>& value_filters();
const std::unordered_map<std::string_view, Filter>& sequence_filters();

// str.replace; a negative count replaces all.
Text replace_text(Machine& machine, const Text& text, const Text& from, const Text& to,
                  int64_t count);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
int64_t count_words(std::string_view bytes);

// int() and float() of a string; nothing when Python would refuse it.
std::optional<int64_t> parse_int(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

}  // namespace bifocal::jinja
