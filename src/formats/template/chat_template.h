// Chat templates: the Jinja subset that published models use, run without Python. Compile once,
// render for every conversation.
//
//     BIFOCAL_TRY(auto chat, ChatTemplate::compile(source, "model.gguf, tokenizer.chat_template"));
//     BIFOCAL_TRY(auto messages, parse_messages(json));
//     BIFOCAL_TRY(auto prompt, chat.render({.messages = messages}));
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bifocal/error.h"

namespace bifocal {

namespace jinja {
struct Template;
}

// A stretch of the prompt: written by the template, or taken from what the user gave.
struct Segment {
    size_t begin = 0;  // bytes of Rendered::text
    size_t end = 0;
    bool from_user = false;
};

struct Rendered {
    std::string text;
    // In order, without gaps, never empty. Control tokens count only where from_user is false.
    std::vector<Segment> segments;
};

struct ChatInputs {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools;      // array, or null: none
    nlohmann::ordered_json documents;  // array, or null: none
    bool add_generation_prompt = true;
    // bos_token, eos_token, ...: text of the model's own, so it may be control tokens.
    std::vector<std::pair<std::string, std::string>> special_tokens;
    // More variables by name, such as enable_thinking.
    nlohmann::ordered_json extra = nlohmann::ordered_json::object();
    // What strftime_now() takes for now; empty: the local time.
    std::function<std::tm()> clock;
};

class ChatTemplate {
  public:
    // `where` names the source in errors. Refuses what the engine does not support, with its place.
    static Result<ChatTemplate> compile(std::string_view source, const std::string& where);

    Result<Rendered> render(const ChatInputs& inputs) const;

  private:
    ChatTemplate(std::shared_ptr<const jinja::Template> tree, std::string where)
        : tree_(std::move(tree)), where_(std::move(where)) {}

    std::shared_ptr<const jinja::Template> tree_;
    std::string where_;
};

// The plain <|im_start|> format. Only for a user who asks for it: a model that was not trained on
// it answers badly.
extern const std::string_view kChatMlTemplate;

}  // namespace bifocal
