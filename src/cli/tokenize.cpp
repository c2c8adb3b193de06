// `bifocal tokenize`.
#include "cli/tokenize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "core/json/json.h"
#include "formats/tokenizer/gguf_metadata.h"
#include "formats/unicode/utf8.h"

namespace bifocal::cli {
namespace {

Error bad_id(std::string got, size_t position) {
    return {.what = "not a token id",
            .where = "input, item " + std::to_string(position),
            .expected = "an integer from 0",
            .got = "'" + std::move(got) + "'"};
}

Result<std::vector<int32_t>> ids_of_json(std::string_view text) {
    const auto parsed = nlohmann::json::parse(text, nullptr, false);
    const nlohmann::json* list = &parsed;
    if (parsed.is_object() && parsed.contains("ids")) list = &parsed["ids"];
    if (parsed.is_discarded() || !list->is_array()) {
        return Error{.what = "cannot read ids",
                     .where = "input",
                     .expected = "a JSON array of integers, or an object with 'ids'"};
    }
    std::vector<int32_t> ids;
    for (const auto& item : *list) {
        const bool fits =
            item.is_number_integer() && item >= 0 && item <= std::numeric_limits<int32_t>::max();
        if (!fits) return bad_id(json::to_text(item), ids.size());
        ids.push_back(item.get<int32_t>());
    }
    return ids;
}

// The readable text of a token: its own bytes, ill-formed ones as U+FFFD.
std::string piece_of(const tokenizer::Tokenizer& tokenizer, int32_t id) {
    return unicode::replace_invalid(tokenizer.token_bytes(id));
}

nlohmann::ordered_json as_json(const tokenizer::Tokenizer& tokenizer,
                               const std::vector<int32_t>& ids) {
    nlohmann::ordered_json out;
    out["ids"] = ids;
    out["pieces"] = nlohmann::ordered_json::array();
    for (const int32_t id : ids) out["pieces"].push_back(piece_of(tokenizer, id));
    return out;
}

struct Request {
    std::string model, tokenizer;
    TextArgs text;
    TokenizeOptions options;
};

Result<std::string> answer(const Request& request) {
    std::string path = request.tokenizer;
    if (path.empty()) {
        BIFOCAL_TRY(path, find_model(request.model));
    }
    BIFOCAL_TRY(const tokenizer::Tokenizer tokenizer, tokenizer::load_tokenizer(path));
    for (const std::string& warning : tokenizer.warnings()) {
        fmt::print(stderr, "bifocal: warning: {}\n", warning);
    }
    BIFOCAL_TRY(const std::string input, read_text(request.text, "text"));
    return tokenize(tokenizer, input, request.options);
}

}  // namespace

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return std::vector<int32_t>();
    if (text[begin] == '[' || text[begin] == '{') return ids_of_json(text);
    std::vector<int32_t> ids;
    for (size_t at = begin; at < text.size();) {
        const size_t end = std::min(text.find_first_of(" \t\r\n,", at), text.size());
        const std::string word(text.substr(at, end - at));
        if (!word.empty()) {
            const bool digits = word.find_first_not_of("0123456789") == std::string::npos;
            if (!digits || word.size() > 9) return bad_id(word, ids.size());
            ids.push_back(std::stoi(word));
        }
        at = end + 1;
    }
    return ids;
}

Result<std::string> tokenize(const tokenizer::Tokenizer& tokenizer, std::string_view input,
                             const TokenizeOptions& options) {
    if (options.decode) {
        BIFOCAL_TRY(const std::vector<int32_t> ids, parse_ids(input));
        BIFOCAL_TRY(std::string text, tokenizer.decode(ids, false));
        if (!options.json) return text + "\n";
        auto out = as_json(tokenizer, ids);
        out["text"] = text;
        return json::to_text(out) + "\n";
    }
    BIFOCAL_TRY(const std::vector<int32_t> ids,
                tokenizer.encode(input, {.add_special = options.add_special,
                                         .parse_special = options.parse_special,
                                         .reject_invalid = true}));
    if (options.json) return json::to_text(as_json(tokenizer, ids)) + "\n";
    std::string out;
    for (const int32_t id : ids) {
        // Quoted as JSON, so that spaces and newlines can be seen.
        out +=
            fmt::format("{:>7}  {}\n", id, json::to_text(nlohmann::json(piece_of(tokenizer, id))));
    }
    return out;
}

void add_tokenize_command(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("tokenize", "show how a model cuts text into tokens");
    auto request = std::make_shared<Request>();
    auto* source = command->add_option_group("source");
    source->add_option("-m,--model", request->model,
                       "GGUF file or model folder; default: the fetched model");
    source->add_option("--tokenizer", request->tokenizer, "tokenizer.json, or a folder with one");
    source->require_option(0, 1);
    add_text_options(*command, request->text);
    command->add_flag("--decode", request->options.decode, "from ids to text");
    command->add_flag("--json", request->options.json, "one JSON object with ids and pieces");
    command->add_flag("!--no-special", request->options.add_special,
                      "leave out what the model puts around a text (BOS, EOS)");
    command->add_flag("!--no-parse-special", request->options.parse_special,
                      "read control tokens in the text as plain text");
    command->footer("Example: bifocal tokenize -p \"Hello there\" --json");
    command->callback([request, &exit_status] {
        const auto text = answer(*request);
        if (!text) {
            exit_status = report(text.error());
            return;
        }
        std::fwrite(text->data(), 1, text->size(), stdout);
    });
}

}  // namespace bifocal::cli
