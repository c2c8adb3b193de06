// `bifocal template`: the text that a model reads for a conversation.
#include "cli/template.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "core/json/json.h"
#include "formats/template/chat_template.h"
#include "formats/template/find_template.h"
#include "formats/template/messages.h"

namespace bifocal::cli {
namespace {

Result<json::OrderedJson> read_json(const std::string& path) {
    BIFOCAL_TRY(const std::string text, read_file(path));
    return json::parse_ordered(text, path == "-" ? "standard input" : path);
}

Result<FoundTemplate> find(const TemplateRequest& request) {
    if (request.template_file.empty()) {
        BIFOCAL_TRY(const std::string model, find_model(request.model));
        return find_template(model);
    }
    BIFOCAL_TRY(FoundTemplate own, read_template(request.template_file));
    if (request.model.empty()) return own;
    // A model without template of its own is fine here; then nothing is known of its tokens.
    if (const auto of_model = find_template(request.model))
        own.special_tokens = of_model->special_tokens;
    return own;
}

// "key=JSON" into a variable of the template.
Status apply_setting(const std::string& setting, ChatInputs& inputs) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) {
        return Error{.what = "a setting has a wrong form",
                     .where = "--set",
                     .expected = "key=JSON, such as enable_thinking=false",
                     .got = "'" + setting + "'",
                     .kind = ErrorKind::usage};
    }
    const std::string key = setting.substr(0, equals);
    auto value = json::parse_ordered(setting.substr(equals + 1), "--set " + key);
    if (!value) {
        value.error().kind = ErrorKind::usage;
        value.error().hint = "a text needs quotes: --set 'name=\"text\"'";
        return std::move(value).error();
    }
    inputs.extra[key] = std::move(*value);
    return {};
}

}  // namespace

Result<std::string> render_template(const TemplateRequest& request) {
    BIFOCAL_TRY(const FoundTemplate found, find(request));
    BIFOCAL_TRY(const ChatTemplate chat, ChatTemplate::compile(found.source, found.where));
    ChatInputs inputs;
    inputs.special_tokens = found.special_tokens;
    inputs.add_generation_prompt = request.generation_prompt;
    BIFOCAL_TRY(const auto messages, read_json(request.messages));
    BIFOCAL_TRY(inputs.messages, parse_messages(messages, request.messages));
    if (!request.tools.empty()) {
        BIFOCAL_TRY(const auto tools, read_json(request.tools));
        BIFOCAL_TRY(inputs.tools, parse_tools(tools, request.tools));
    }
    for (const std::string& setting : request.settings) {
        BIFOCAL_TRY_STATUS(apply_setting(setting, inputs));
    }
    BIFOCAL_TRY(Rendered rendered, chat.render(inputs));
    return std::move(rendered.text);
}

void add_template_command(CLI::App& app, int& exit_status) {
    CLI::App* command =
        app.add_subcommand("template", "show the text that a model reads for a conversation");
    auto request = std::make_shared<TemplateRequest>();
    auto* source = command->add_option_group("source");
    source->add_option("-m,--model", request->model,
                       "GGUF file or model folder; default: the fetched model");
    source->add_option("--chat-template-file", request->template_file,
                       "Jinja file instead of the model's own template");
    source->require_option(0, 2);
    command
        ->add_option("--messages", request->messages,
                     "JSON file with the messages; '-': standard input")
        ->required();
    command->add_option("--tools", request->tools, "JSON file with the functions to offer");
    command
        ->add_option("--set", request->settings,
                     "a variable for the template, as key=JSON; may be repeated")
        ->expected(1)
        ->take_all();
    command->add_flag("!--no-generation-prompt", request->generation_prompt,
                      "do not open the assistant's turn");
    command->footer(
        "Example: bifocal template -m model.gguf --messages chat.json --set enable_thinking=false");
    command->callback([request, &exit_status] {
        const auto text = render_template(*request);
        if (!text) {
            exit_status = report(text.error());
            return;
        }
        std::fwrite(text->data(), 1, text->size(), stdout);
    });
}

}  // namespace bifocal::cli
