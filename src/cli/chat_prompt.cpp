#include "cli/chat_prompt.h"

#include <algorithm>

#include "cli/text_input.h"

namespace bifocal::cli {

Result<tokenizer::Tokenizer> tokenizer_of(const Model& model) {
    if (model.tokenizer()) return *model.tokenizer();
    return Error{.what = "the model has no tokenizer",
                 .where = model.info().path,
                 .expected = "tokenizer.json beside the weights"};
}

ChatPrompt::ChatPrompt(ChatTemplate chat, tokenizer::Tokenizer tokenizer)
    : template_(std::move(chat)), tokenizer_(std::move(tokenizer)) {}

Result<ChatPrompt> ChatPrompt::make(const Model& model, const std::string& template_file) {
    BIFOCAL_TRY(tokenizer::Tokenizer tokenizer, tokenizer_of(model));
    std::string source, where;
    if (!template_file.empty()) {
        BIFOCAL_TRY(source, read_file(template_file));
        where = template_file;
    } else if (model.chat_template()) {
        source = *model.chat_template();
        where = model.info().path + ", chat template";
    } else {
        return Error{.what = "the model has no chat template",
                     .where = model.info().path,
                     .hint =
                         "give one with --chat-template-file, or use 'bifocal run' to continue "
                         "a text"};
    }
    BIFOCAL_TRY(ChatTemplate chat, ChatTemplate::compile(source, where));
    return ChatPrompt(std::move(chat), std::move(tokenizer));
}

Result<Rendered> ChatPrompt::render(const nlohmann::ordered_json& messages,
                                    bool add_generation_prompt) const {
    ChatInputs inputs;
    inputs.messages = messages;
    inputs.add_generation_prompt = add_generation_prompt;
    const tokenizer::SpecialIds& ids = tokenizer_.special();
    const std::pair<const char*, std::optional<int32_t>> names[] = {{"bos_token", ids.bos},
                                                                    {"eos_token", ids.eos},
                                                                    {"unk_token", ids.unk},
                                                                    {"pad_token", ids.pad}};
    for (const auto& [name, id] : names)
        if (id) inputs.special_tokens.emplace_back(name, std::string(tokenizer_.token(*id)));
    return template_.render(inputs);
}

Result<std::vector<int32_t>> ChatPrompt::encode(const Rendered& rendered, size_t begin) const {
    std::vector<tokenizer::TextSegment> parts;
    const std::string_view text = rendered.text;
    for (const Segment& segment : rendered.segments) {
        const size_t from = std::max(begin, segment.begin);
        if (from < segment.end)
            parts.push_back({text.substr(from, segment.end - from), segment.from_user});
    }
    // The template writes BOS itself where the model wants it.
    return tokenizer_.encode_segments(
        parts, {.add_special = false, .parse_special = true, .reject_invalid = true});
}

nlohmann::ordered_json chat_message(const std::string& role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

}  // namespace bifocal::cli
