// A conversation as the model's own template writes it, and its tokens. What a user or the model
// wrote is marked, so it never becomes a control token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "formats/template/chat_template.h"
#include "formats/tokenizer/tokenizer.h"

namespace bifocal::cli {

class ChatPrompt {
  public:
    // The template of the model, or of `template_file` when that is not empty.
    static Result<ChatPrompt> make(const Model& model, const std::string& template_file);

    Result<Rendered> render(const nlohmann::ordered_json& messages,
                            bool add_generation_prompt) const;
    // The tokens of the rendered text from byte `begin` on.
    Result<std::vector<int32_t>> encode(const Rendered& rendered, size_t begin) const;

  private:
    ChatPrompt(ChatTemplate chat, tokenizer::Tokenizer tokenizer);

    ChatTemplate template_;
    tokenizer::Tokenizer tokenizer_;
};

nlohmann::ordered_json chat_message(const std::string& role, const std::string& content);

// The model's tokenizer; an error when it has none.
Result<tokenizer::Tokenizer> tokenizer_of(const Model& model);

}  // namespace bifocal::cli
