// From the text of a tokenizer.json to a Tokenizer.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "formats/tokenizer/json_components.h"
#include "formats/tokenizer/parts.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

Result<std::string> read_file(const std::string& path) {
    struct File {
        std::FILE* handle;
        ~File() {
            if (handle != nullptr) std::fclose(handle);
        }
    };
    const File file{std::fopen(path.c_str(), "rb")};
    if (file.handle == nullptr) {
        return tokenizer_error("cannot open file", path, "", std::strerror(errno));
    }
    struct stat info {};
    if (fstat(fileno(file.handle), &info) != 0 || !S_ISREG(info.st_mode)) {
        return tokenizer_error("not a regular file", path);
    }
    if (static_cast<uint64_t>(info.st_size) > kMaxFileBytes) {
        return tokenizer_error("file too large", path,
                               "at most " + std::to_string(kMaxFileBytes) + " bytes",
                               std::to_string(info.st_size));
    }
    std::string text(static_cast<size_t>(info.st_size), '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.handle));
    return text;
}

Status read_vocab_object(const JsonObject& model, Parts& parts) {
    BIFOCAL_TRY(const JsonObject vocab, model.child("vocab"));
    // Ids may have gaps, but a few entries must not ask for a huge table.
    const auto entries = static_cast<int64_t>(vocab.object().size());
    const int64_t limit = std::min(kMaxVocab, entries * 4 + kMaxIdGap);
    for (const auto field : vocab.object()) {
        int64_t id = -1;
        const std::string token(field.key);
        if (field.value.get_int64().get(id) != simdjson::SUCCESS || id < 0 || id >= limit) {
            return tokenizer_error("token id out of range", vocab.where() + ", '" + token + "'",
                                   "0.." + std::to_string(limit - 1));
        }
        if (token.size() > kMaxTokenBytes) {
            return tokenizer_error("token too long", vocab.where(),
                                   "at most " + std::to_string(kMaxTokenBytes) + " bytes",
                                   std::to_string(token.size()));
        }
        const auto at = static_cast<size_t>(id);
        if (at >= parts.tokens.size()) {
            parts.tokens.resize(at + 1);
            parts.in_model.resize(at + 1);
        }
        if (parts.in_model[at]) {
            return tokenizer_error("two tokens share an id", vocab.where(),
                                   "'" + parts.tokens[at] + "' alone at id " + std::to_string(id),
                                   "'" + token + "'");
        }
        parts.tokens[at] = token;
        parts.in_model[at] = true;
    }
    return {};
}

// "left right" with one space, or ["left", "right"]: the second form exists because tokens may
// hold spaces.
Result<std::pair<std::string_view, std::string_view>> read_pair(JsonElement element,
                                                                const std::string& where) {
    std::string_view text;
    if (element.get_string().get(text) == simdjson::SUCCESS) {
        const size_t space = text.find(' ');
        if (space != std::string_view::npos &&
            text.find(' ', space + 1) == std::string_view::npos) {
            return std::pair{text.substr(0, space), text.substr(space + 1)};
        }
        return tokenizer_error("bad merge", where, "two tokens with one space between",
                               "'" + std::string(text) + "'");
    }
    simdjson::dom::array array;
    std::string_view sides[2];
    if (element.get_array().get(array) == simdjson::SUCCESS && array.size() == 2) {
        const bool strings = array.at(0).get_string().get(sides[0]) == simdjson::SUCCESS &&
                             array.at(1).get_string().get(sides[1]) == simdjson::SUCCESS;
        if (strings) return std::pair{sides[0], sides[1]};
    }
    return tokenizer_error("bad merge", where, "a string or an array of two strings");
}

Status read_merges(const JsonObject& model, Parts& parts) {
    std::unordered_map<std::string_view, int32_t> ids;
    ids.reserve(parts.tokens.size());
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
        if (parts.in_model[id]) ids.emplace(parts.tokens[id], static_cast<int32_t>(id));
    }
    BIFOCAL_TRY(const JsonElement element, model.require("merges"));
    simdjson::dom::array array;
    if (element.get_array().get(array) != simdjson::SUCCESS) {
        return model.wrong("merges", "an array");
    }
    std::string joined;
    int32_t rank = 0;
    for (const JsonElement item : array) {
        const std::string where = model.where() + ", merges[" + std::to_string(rank) + "]";
        std::string_view line;
        const bool is_text = item.get_string().get(line) == simdjson::SUCCESS;
        if (rank == 0 && is_text && line.starts_with("#version")) continue;
        BIFOCAL_TRY(const auto pair, read_pair(item, where));
        joined.assign(pair.first);
        joined += pair.second;
        int32_t found[3];
        int i = 0;
        for (const std::string_view token : {pair.first, pair.second, std::string_view(joined)}) {
            const auto known = ids.find(token);
            if (known == ids.end()) {
                return tokenizer_error("merge names an unknown token", where,
                                       "tokens of the vocabulary", "'" + std::string(token) + "'");
            }
            found[i++] = known->second;
        }
        parts.merges.push_back({found[0], found[1], {rank, found[2]}});
        ++rank;
    }
    return {};
}

Status read_model(const JsonObject& model, Parts& parts) {
    BIFOCAL_TRY(const std::string type, model.string("type", "BPE"));
    if (type != "BPE") {
        return tokenizer_error("unsupported model", model.where(), "'BPE'", "'" + type + "'");
    }
    const auto dropout = model.find("dropout");
    double rate = 0;
    if (dropout && (dropout->get_double().get(rate) != simdjson::SUCCESS || rate != 0.0)) {
        return tokenizer_error("unsupported value", model.where() + ", dropout", "null or 0");
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        BIFOCAL_TRY(const std::string affix, model.string(key, ""));
        if (!affix.empty()) {
            return tokenizer_error("unsupported value", model.where() + ", " + std::string(key),
                                   "null or empty", "'" + affix + "'");
        }
    }
    BIFOCAL_TRY(parts.options.fuse_unk, model.boolean("fuse_unk", false));
    BIFOCAL_TRY(parts.options.byte_fallback, model.boolean("byte_fallback", false));
    BIFOCAL_TRY(parts.options.ignore_merges, model.boolean("ignore_merges", false));
    BIFOCAL_TRY_STATUS(read_vocab_object(model, parts));
    BIFOCAL_TRY_STATUS(read_merges(model, parts));
    BIFOCAL_TRY(const std::string unk, model.string("unk_token", ""));
    if (unk.empty()) return {};
    for (size_t id = 0; id < parts.tokens.size(); ++id) {
        if (parts.in_model[id] && parts.tokens[id] == unk) {
            parts.options.unk = parts.special.unk = static_cast<int32_t>(id);
        }
    }
    if (!parts.options.unk) {
        return tokenizer_error("unknown token is not in the vocabulary",
                               model.where() + ", unk_token", "", "'" + unk + "'");
    }
    return {};
}

Status read_added_tokens(const JsonObject& root, Parts& parts) {
    if (!root.find("added_tokens")) return {};
    BIFOCAL_TRY(const auto tokens, root.children("added_tokens"));
    for (const JsonObject& json : tokens) {
        AddedToken token;
        BIFOCAL_TRY(const int64_t id, json.integer("id"));
        BIFOCAL_TRY(token.content, json.string("content"));
        BIFOCAL_TRY(token.special, json.boolean("special", false));
        BIFOCAL_TRY(token.normalized, json.boolean("normalized", !token.special));
        BIFOCAL_TRY(token.single_word, json.boolean("single_word", false));
        BIFOCAL_TRY(token.lstrip, json.boolean("lstrip", false));
        BIFOCAL_TRY(token.rstrip, json.boolean("rstrip", false));
        token.id = id < 0 || id >= kMaxVocab ? -1 : static_cast<int32_t>(id);
        BIFOCAL_TRY_STATUS(parts.add_token(std::move(token), json.where()));
    }
    return {};
}

Status read_components(const JsonObject& root, Parts& parts) {
    for (const std::string_view key :
         {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
        const auto element = root.find(key);
        if (!element) continue;
        parts.pipeline += key;
        parts.pipeline += simdjson::minify(*element);
        BIFOCAL_TRY(const JsonObject json,
                    JsonObject::from(*element, root.where() + ", " + std::string(key)));
        if (key == "normalizer") {
            BIFOCAL_TRY_STATUS(read_normalizer(json, parts.normalizer));
        } else if (key == "pre_tokenizer") {
            BIFOCAL_TRY_STATUS(read_pre_tokenizer(json, parts.pre_tokenizer));
        } else if (key == "decoder") {
            BIFOCAL_TRY_STATUS(read_decoder(json, parts.decoder));
        } else {
            BIFOCAL_TRY_STATUS(read_post_processor(json, parts));
        }
    }
    return {};
}

Result<JsonObject> parse(simdjson::dom::parser& parser, std::string_view text,
                         const std::string& where) {
    JsonElement element;
    const simdjson::error_code code = parser.parse(text.data(), text.size()).get(element);
    if (code != simdjson::SUCCESS) {
        return tokenizer_error("not JSON", where, "", simdjson::error_message(code));
    }
    return JsonObject::from(element, where);
}

// "bos_token": "<s>" or {"content": "<s>", ...}.
std::optional<int32_t> token_named(const JsonObject& config, std::string_view key,
                                   const Tokenizer& tokenizer) {
    const auto element = config.find(key);
    std::string_view text;
    if (!element) return std::nullopt;
    if (element->get_string().get(text) != simdjson::SUCCESS &&
        element->at_key("content").get_string().get(text) != simdjson::SUCCESS) {
        return std::nullopt;
    }
    return tokenizer.id_of(text);
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(std::string_view text, const std::string& where) {
    if (text.size() > kMaxFileBytes) {
        return tokenizer_error("text too large", where,
                               "at most " + std::to_string(kMaxFileBytes) + " bytes",
                               std::to_string(text.size()));
    }
    simdjson::dom::parser parser;
    BIFOCAL_TRY(const JsonObject root, parse(parser, text, where));
    auto parts = std::make_shared<Parts>();
    BIFOCAL_TRY(const JsonObject model, root.child("model"));
    BIFOCAL_TRY_STATUS(read_model(model, *parts));
    BIFOCAL_TRY_STATUS(read_added_tokens(root, *parts));
    BIFOCAL_TRY_STATUS(read_components(root, *parts));
    BIFOCAL_TRY_STATUS(parts->finish(where));
    return Tokenizer(std::move(parts));
}

Result<Tokenizer> Tokenizer::from_json_file(const std::string& path) {
    struct stat info {};
    const bool folder = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    const std::string file = folder ? path + "/tokenizer.json" : path;
    BIFOCAL_TRY(const std::string text, read_file(file));
    BIFOCAL_TRY(Tokenizer tokenizer, from_json(text, file));
    const size_t slash = file.rfind('/');
    const std::string beside =
        (slash == std::string::npos ? "" : file.substr(0, slash + 1)) + "tokenizer_config.json";
    if (stat(beside.c_str(), &info) != 0) return tokenizer;
    BIFOCAL_TRY(const std::string config_text, read_file(beside));
    simdjson::dom::parser parser;
    BIFOCAL_TRY(const JsonObject config, parse(parser, config_text, beside));
    SpecialIds special = tokenizer.special();
    special.bos = token_named(config, "bos_token", tokenizer);
    special.eos = token_named(config, "eos_token", tokenizer);
    special.pad = token_named(config, "pad_token", tokenizer);
    if (special.eos) special.stops = {*special.eos};
    tokenizer.set_special(std::move(special));
    return tokenizer;
}

}  // namespace bifocal::tokenizer
