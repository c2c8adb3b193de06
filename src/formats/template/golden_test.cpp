// Every case that tools/golden/template.py rendered with jinja2: the same text, or a refusal where
// jinja2 refuses.
#include <gtest/gtest.h>

#include <fstream>

#include "formats/template/chat_template.h"

namespace bifocal {
namespace {

using Json = nlohmann::ordered_json;

std::tm golden_clock() {
    std::tm now{};  // 2026-02-03 04:05:06, a Tuesday
    now.tm_year = 126;
    now.tm_mon = 1;
    now.tm_mday = 3;
    now.tm_hour = 4;
    now.tm_min = 5;
    now.tm_sec = 6;
    now.tm_wday = 2;
    now.tm_yday = 33;
    return now;
}

ChatInputs inputs_of(const Json& variables) {
    ChatInputs inputs;
    inputs.add_generation_prompt = false;
    inputs.clock = golden_clock;
    for (const auto& [name, value] : variables.items()) {
        if (name == "messages") {
            inputs.messages = value;
        } else if (name == "tools") {
            inputs.tools = value;
        } else if (name == "add_generation_prompt") {
            inputs.add_generation_prompt = value.get<bool>();
        } else if (name == "bos_token" || name == "eos_token") {
            inputs.special_tokens.emplace_back(name, value.get<std::string>());
        } else {
            inputs.extra[name] = value;
        }
    }
    return inputs;
}

// Empty: as jinja2 does. Else what differs.
std::string difference(const std::string& source, const Json& variables, const Json& golden) {
    const auto expected = golden.find("expected");
    const auto compiled = ChatTemplate::compile(source, "template");
    std::string got;
    if (compiled.ok()) {
        const auto rendered = compiled->render(inputs_of(variables));
        if (rendered.ok()) {
            got = rendered->text;
            if (expected == golden.end()) return "rendered " + got + ", jinja2 refuses";
            if (got == expected->get<std::string>()) return "";
        } else {
            got = "error: " + rendered.error().message();
        }
    } else {
        got = "error: " + compiled.error().message();
    }
    if (expected == golden.end()) return "";
    return "expected " + expected->dump() + "\n     got " + Json(got).dump();
}

struct Golden {
    Json head;
    std::vector<Json> cases;
};

Golden read_golden(const std::string& name) {
    std::ifstream file(BIFOCAL_SOURCE_DIR "/tests/golden/template/" + name);
    Golden golden;
    std::string line;
    while (std::getline(file, line)) {
        (golden.head.is_null() ? golden.head : golden.cases.emplace_back()) = Json::parse(line);
    }
    return golden;
}

TEST(TemplateGolden, EveryConstructEqualsJinja2) {
    const Golden golden = read_golden("constructs.jsonl");
    ASSERT_GT(golden.cases.size(), 1000u);
    for (const Json& one : golden.cases) {
        const auto source = one["template"].get<std::string>();
        const std::string wrong = difference(source, one["variables"], one);
        if (!wrong.empty())
            ADD_FAILURE() << source << "\n" << wrong << "\n  (" << one.value("error", "") << ")";
    }
}

TEST(TemplateGolden, WholeChatTemplatesEqualJinja2) {
    const Golden golden = read_golden("styles.jsonl");
    ASSERT_GT(golden.cases.size(), 500u);
    for (const Json& one : golden.cases) {
        Json variables = {
            {"messages", golden.head["conversations"][one["conversation"].get<std::string>()]},
            {"tools", one["tools"].get<bool>() ? golden.head["tools"] : Json()},
            {"add_generation_prompt", one["prompt"]},
            {"bos_token", "<s>"},
            {"eos_token", "</s>"}};
        variables.update(golden.head["extras"][one["extra"].get<size_t>()]);
        const auto source =
            golden.head["styles"][one["style"].get<std::string>()].get<std::string>();
        const std::string wrong = difference(source, variables, one);
        if (!wrong.empty()) {
            Json key = one;
            key.erase("expected");
            ADD_FAILURE() << key.dump() << "\n" << wrong;
        }
    }
}

}  // namespace
}  // namespace bifocal
