// Checks a conversation that came from outside before a template sees it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bifocal/error.h"

namespace bifocal {

// The conversation if it is one: an array of objects, each with a known role and a content that is
// a string or a list of {"type": "text", "text": ...}; the error names the message by its index.
// Members that are null are left out, as templates expect: an assistant that only calls tools has
// no content.
Result<nlohmann::ordered_json> parse_messages(const nlohmann::ordered_json& messages,
                                              const std::string& where);

// The functions a model may call: an array of objects, or null.
Result<nlohmann::ordered_json> parse_tools(const nlohmann::ordered_json& tools,
                                           const std::string& where);

}  // namespace bifocal
