#include "formats/template/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "formats/template/text.h"
#include "formats/unicode/utf8.h"

namespace bifocal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "user", "assistant", "tool",
                                                    "developer"};

// The role as it is safe to print in an error.
std::string shown(const std::string& text) {
    if (!unicode::is_valid(text)) return "invalid UTF-8";
    return "'" + text.substr(0, jinja::byte_of_code_point(text, 40)) + "'";
}

Status check_content(const Json& content, const std::string& where) {
    if (content.is_string()) {
        if (unicode::is_valid(content.get_ref<const std::string&>())) return {};
        return Error{"content is not valid UTF-8", where, "", "", ""};
    }
    if (!content.is_array())
        return Error{"content has a wrong type", where, "a string or a list of parts",
                     content.type_name(), ""};
    for (size_t i = 0; i < content.size(); ++i) {
        const Json& part = content[i];
        const std::string here = fmt::format("{}, part {}", where, i);
        if (!part.is_object()) return Error{"a part of the content is no object", here, "", "", ""};
        const auto type = part.find("type");
        if (type == part.end() || !type->is_string())
            return Error{"a part of the content has no type", here, "\"type\": \"text\"", "", ""};
        if (*type != "text") {
            return Error{"a part of the content has an unsupported type", here, "'text'",
                         shown(type->get<std::string>()), "only text can be read"};
        }
        const auto text = part.find("text");
        if (text == part.end() || !text->is_string())
            return Error{"a text part has no text", here, "\"text\": a string", "", ""};
        if (!unicode::is_valid(text->get_ref<const std::string&>()))
            return Error{"text is not valid UTF-8", here, "", "", ""};
    }
    return {};
}

}  // namespace

Result<Json> parse_messages(const Json& messages, const std::string& where) {
    if (!messages.is_array())
        return Error{"the conversation is no list of messages", where, "an array",
                     messages.type_name(),
                     "such as [{\"role\": \"user\", \"content\": \"Hello\"}]"};
    if (messages.empty())
        return Error{"the conversation is empty", where, "at least one message", "", ""};
    Json result = Json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
        const std::string here = fmt::format("{}, message {}", where, i);
        if (!messages[i].is_object())
            return Error{"a message is no object", here, "", messages[i].type_name(), ""};
        Json message = Json::object();
        for (const auto& [key, value] : messages[i].items()) {
            if (!value.is_null()) message[key] = value;
        }
        const auto role = message.find("role");
        if (role == message.end() || !role->is_string())
            return Error{"a message has no role", here,
                         fmt::format("one of {}", fmt::join(kRoles, ", ")), "", ""};
        const auto& name = role->get_ref<const std::string&>();
        if (std::ranges::find(kRoles, name) == kRoles.end())
            return Error{"unknown role", here, fmt::format("one of {}", fmt::join(kRoles, ", ")),
                         shown(name), ""};
        const auto content = message.find("content");
        if (content != message.end()) {
            BIFOCAL_TRY_STATUS(check_content(*content, here));
        } else if (name != "assistant") {
            return Error{"a message has no content", here, "\"content\": a string", "", ""};
        }
        result.push_back(std::move(message));
    }
    return result;
}

Result<Json> parse_tools(const Json& tools, const std::string& where) {
    if (tools.is_null()) return tools;
    if (!tools.is_array())
        return Error{"the tools are no list", where, "an array of objects", tools.type_name(), ""};
    for (size_t i = 0; i < tools.size(); ++i) {
        if (!tools[i].is_object())
            return Error{"a tool is no object", fmt::format("{}, tool {}", where, i), "",
                         tools[i].type_name(), ""};
    }
    return tools;
}

}  // namespace bifocal
