#include "formats/template/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "formats/template/interpreter.h"
#include "formats/template/lexer.h"
#include "formats/template/parser.h"
#include "formats/unicode/utf8.h"

namespace bifocal {
namespace {

using jinja::Kind;
using jinja::Machine;
using jinja::Value;
using Json = nlohmann::ordered_json;

// "name, line 3, column 7"; lines of the source as given, columns in characters.
std::string place(const std::string& where, std::string_view source, size_t offset) {
    offset = std::min(offset, source.size());
    const std::string_view before = source.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t newline = before.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    return fmt::format("{}, line {}, column {}", where, line,
                       jinja::count_code_points(before.substr(begin)) + 1);
}

// Values of the conversation: every string in them is the user's.
Value from_json(Machine& machine, const Json& json, const std::string& path, bool user) {
    const jinja::Nested nested(machine);
    switch (json.type()) {
        case Json::value_t::null:
            return Value::none();
        case Json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case Json::value_t::number_integer:
            return Value::integer(json.get<int64_t>());
        case Json::value_t::number_unsigned: {
            const auto number = json.get<uint64_t>();
            if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
                jinja::fail(fmt::format("integer {} in '{}' does not fit 64 bits", number, path));
            return Value::integer(static_cast<int64_t>(number));
        }
        case Json::value_t::number_float:
            return Value::real(json.get<double>());
        case Json::value_t::string: {
            const auto& text = json.get_ref<const std::string&>();
            if (!unicode::is_valid(text)) jinja::fail(fmt::format("'{}' is not valid UTF-8", path));
            return machine.string(text, user);
        }
        case Json::value_t::array: {
            std::vector<Value> items;
            items.reserve(json.size());
            for (size_t i = 0; i < json.size(); ++i)
                items.push_back(from_json(machine, json[i], fmt::format("{}[{}]", path, i), user));
            return machine.list(std::move(items));
        }
        case Json::value_t::object: {
            auto dict = machine.new_dict();
            for (const auto& [key, value] : json.items()) {
                if (!unicode::is_valid(key))
                    jinja::fail(fmt::format("a key in '{}' is not valid UTF-8", path));
                jinja::insert(machine, *dict, machine.string(key, user),
                              from_json(machine, value, path + "." + key, user));
            }
            return machine.dict(std::move(dict));
        }
        default:
            jinja::fail(fmt::format("'{}' holds a value that is no JSON", path));
    }
}

void set_variables(Machine& machine, const ChatInputs& inputs) {
    auto& variables = machine.variables;
    for (const auto& [name, call] : jinja::global_functions()) {
        auto function =
            std::make_shared<jinja::FunctionObject>(&machine.meter, sizeof(jinja::FunctionObject));
        function->name = name;
        function->call = call;
        variables[std::string(name)] = Value::object(Kind::function, std::move(function));
    }
    const auto set = [&](const std::string& name, const Json& json) {
        variables[name] = from_json(machine, json, name, true);
    };
    for (const auto& [name, text] : inputs.special_tokens) {
        if (!unicode::is_valid(text)) jinja::fail(fmt::format("'{}' is not valid UTF-8", name));
        variables[name] = machine.string(text);
    }
    set("messages", inputs.messages);
    set("tools", inputs.tools);
    set("documents", inputs.documents);
    variables["add_generation_prompt"] = Value::boolean(inputs.add_generation_prompt);
    for (const auto& [name, value] : inputs.extra.items()) set(name, value);
}

std::tm local_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    return parts;
}

std::vector<Segment> segments_of(const jinja::Text& text) {
    std::vector<Segment> segments;
    size_t at = 0;
    const auto add = [&](size_t end, bool user) {
        if (end > at) segments.push_back({at, end, user});
        at = std::max(at, end);
    };
    for (const auto& span : text.user) {
        add(span.begin, false);
        add(span.end, true);
    }
    add(text.bytes.size(), false);
    return segments;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, const std::string& where) {
    if (source.size() > jinja::kMaxSourceBytes)
        return Error{"chat template is too long", where, "at most 1 MiB", "", ""};
    if (!unicode::is_valid(source))
        return Error{"chat template is not valid UTF-8", where, "", "", ""};
    try {
        return ChatTemplate(std::shared_ptr<const jinja::Template>(jinja::parse(source)), where);
    } catch (const jinja::Failure& failure) {
        const std::string text = jinja::normalise_source(source);
        return Error{failure.what, place(where, text, failure.offset), "", "", ""};
    } catch (const std::exception& problem) {
        return Error{fmt::format("chat template cannot be compiled: {}", problem.what()), where, "",
                     "", ""};
    }
}

Result<Rendered> ChatTemplate::render(const ChatInputs& inputs) const {
    Machine machine(inputs.clock ? inputs.clock : local_now);
    try {
        set_variables(machine, inputs);
        jinja::Text text = jinja::run(machine, *tree_);
        Rendered rendered;
        rendered.segments = segments_of(text);
        rendered.text = std::move(text.bytes);
        return rendered;
    } catch (const jinja::Failure& failure) {
        const size_t offset = failure.offset == std::string::npos ? machine.at : failure.offset;
        return Error{failure.raised ? "the template refuses this conversation: " + failure.what
                                    : failure.what,
                     place(where_, tree_->source, offset), "", "", ""};
    } catch (const std::exception& problem) {
        return Error{fmt::format("chat template failed: {}", problem.what()),
                     place(where_, tree_->source, machine.at), "", "", ""};
    }
}

const std::string_view kChatMlTemplate =
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace bifocal
