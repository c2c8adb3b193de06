#include "formats/template/find_template.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/json/json.h"
#include "core/mapped_file.h"
#include "formats/gguf/file.h"

namespace bifocal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGgufKey = "tokenizer.chat_template";
constexpr const char* kOwnFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kConfigKey = "chat_template";

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

Error no_template(const std::string& where, const std::string& expected) {
    return {.what = "the model has no chat template",
            .where = where,
            .expected = expected,
            .hint = "give one with --chat-template-file"};
}

// A token is written as a string or as an object with "content".
Status add_special_tokens(const json::Fields& fields, FoundTemplate& found) {
    for (const auto& [key, value] : fields.json().items()) {
        if (!key.ends_with("_token")) continue;
        const json::Json* text = &value;
        if (value.is_object() && value.contains("content")) text = &value["content"];
        if (text->is_string()) found.special_tokens.emplace_back(key, text->get<std::string>());
    }
    return {};
}

Result<std::string> template_of(const json::Fields& config) {
    const json::Json* entry = config.find(kConfigKey);
    if (!entry) return no_template(config.where(), kConfigKey);
    if (entry->is_string()) return entry->get<std::string>();
    if (!entry->is_array()) {
        return config.error(kConfigKey, "a chat template has a wrong type",
                            "a string, or a list of named ones", std::string(json::kind(*entry)));
    }
    for (size_t i = 0; i < entry->size(); ++i) {
        const std::string where = fmt::format("{}, {}[{}]", config.where(), kConfigKey, i);
        BIFOCAL_TRY(const json::Fields one, json::Fields::of((*entry)[i], where));
        BIFOCAL_TRY(const auto name, one.string("name"));
        BIFOCAL_TRY(const auto source, one.string("template"));
        if (name == "default" && source) return *source;
    }
    return config.error(kConfigKey, "no chat template is named 'default'");
}

Result<FoundTemplate> find_in_folder(const fs::path& folder) {
    const fs::path own = folder / kOwnFile, config = folder / kConfigFile;
    FoundTemplate found;
    const bool has_own = is_there(own);
    if (!has_own && !is_there(config)) {
        return no_template(folder.string(), fmt::format("{} or {} in it", kOwnFile, kConfigFile));
    }
    if (has_own) {
        BIFOCAL_TRY(found, read_template(own.string()));
    }
    if (!is_there(config)) return found;
    BIFOCAL_TRY(const json::Json document, json::read_file(config.string()));
    BIFOCAL_TRY(const json::Fields fields, json::Fields::of(document, config.string()));
    BIFOCAL_TRY_STATUS(add_special_tokens(fields, found));
    if (has_own) return found;
    BIFOCAL_TRY(found.source, template_of(fields));
    found.where = fmt::format("{}, {}", config.string(), kConfigKey);
    return found;
}

}  // namespace

bool has_template(const gguf::Metadata& metadata) {
    return metadata.has(kGgufKey);
}

Result<bool> has_template(const std::string& folder) {
    if (is_there(fs::path(folder) / kOwnFile)) return true;
    const fs::path config = fs::path(folder) / kConfigFile;
    if (!is_there(config)) return false;
    BIFOCAL_TRY(const json::Json document, json::read_file(config.string()));
    BIFOCAL_TRY(const json::Fields fields, json::Fields::of(document, config.string()));
    return fields.has(kConfigKey);
}

Result<FoundTemplate> read_template(const std::string& file) {
    BIFOCAL_TRY(const auto mapped, MappedFile::open(file));
    const auto bytes = mapped->bytes();
    FoundTemplate found;
    found.source.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    found.where = file;
    return found;
}

Result<FoundTemplate> find_template(const gguf::Metadata& metadata) {
    if (!has_template(metadata)) return no_template(metadata.source(), kGgufKey);
    FoundTemplate found;
    BIFOCAL_TRY(found.source, metadata.get_string(kGgufKey));
    found.where = fmt::format("{}, {}", metadata.source(), kGgufKey);
    const gguf::Value* tokens = metadata.find("tokenizer.ggml.tokens");
    const auto* texts = tokens ? std::get_if<gguf::Array>(&tokens->held) : nullptr;
    if (!texts) return found;
    constexpr std::pair<const char*, const char*> kTokens[] = {
        {"bos", "bos_token"},       {"eos", "eos_token"},       {"unknown", "unk_token"},
        {"padding", "pad_token"},   {"cls", "cls_token"},       {"mask", "mask_token"},
        {"seperator", "sep_token"}, {"separator", "sep_token"},
    };
    for (const auto& [key, name] : kTokens) {
        const std::string id_key = fmt::format("tokenizer.ggml.{}_token_id", key);
        if (!metadata.has(id_key)) continue;
        BIFOCAL_TRY(const int64_t id, metadata.get_integer(id_key, 0, INT32_MAX));
        if (static_cast<size_t>(id) >= texts->strings.size()) {
            return metadata.error(id_key, "token id is outside of the vocabulary",
                                  fmt::format("below {}", texts->strings.size()),
                                  fmt::to_string(id));
        }
        found.special_tokens.emplace_back(name, texts->strings[static_cast<size_t>(id)]);
    }
    return found;
}

Result<FoundTemplate> find_template(const std::string& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return find_in_folder(path);
    BIFOCAL_TRY(const gguf::File file, gguf::File::open(path));
    return find_template(file.metadata());
}

}  // namespace bifocal
