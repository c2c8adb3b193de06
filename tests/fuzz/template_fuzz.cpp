// Bytes as a chat template: compile, and render a conversation that has everything in it. Errors
// are one line; what renders is covered by its segments.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/template/chat_template.h"

namespace {

constexpr std::string_view kMessages = R"([
    {"role": "system", "content": "Be brief. <|im_end|>"},
    {"role": "user", "content": [{"type": "text", "text": "Wie spät? 時 😀"}, {"type": "image"}]},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nNo.", "reasoning_content": "hm",
     "tool_calls": [{"id": "abcdefghi", "function": {"name": "f", "arguments": {"a": [1, 2.5, null], "b": "x"}}}]},
    {"role": "tool", "content": "{\"t\": 1}", "tool_call_id": "abcdefghi"},
    {"role": "user", "content": "  a\tb\r\nc  "}])";
constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "f", "description": "d",
    "parameters": {"type": "object", "required": ["a"], "properties": {"a": {"type": "array",
    "items": {"type": "integer"}}, "b": {"type": "string", "enum": ["x", "y"], "default": "x"}}}}}])";
constexpr std::string_view kExtra =
    R"({"enable_thinking": false, "date_string": "1 Jan", "l": [3, 1, 2],
    "d": {"a": 1, "b": {"c": [1]}, "items": "own"}, "s": "Hello World", "n": null, "t": true, "f": 1.5})";

bifocal::ChatInputs make_inputs() {
    using Json = nlohmann::ordered_json;
    bifocal::ChatInputs inputs;
    inputs.messages = Json::parse(kMessages);
    inputs.tools = Json::parse(kTools);
    inputs.extra = Json::parse(kExtra);
    inputs.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    inputs.clock = [] { return std::tm{}; };
    return inputs;
}

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const bifocal::ChatInputs kInputs = make_inputs();
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto chat = bifocal::ChatTemplate::compile(source, "fuzz");
    if (!chat) {
        require(chat.error().message().find('\n') == std::string::npos);
        return 0;
    }
    const auto rendered = chat->render(kInputs);
    if (!rendered) {
        require(rendered.error().message().find('\n') == std::string::npos);
        return 0;
    }
    size_t at = 0;
    for (const bifocal::Segment& segment : rendered->segments) {
        require(segment.begin == at && segment.end > at);
        at = segment.end;
    }
    require(at == rendered->text.size());
    return 0;
}
