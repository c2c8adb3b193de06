#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/json/json.h"
#include "formats/safetensors/file.h"
#include "formats/template/find_template.h"
#include "model/families/readers.h"
#include "model/source.h"
#include "model/student.h"

namespace bifocal {
namespace {

namespace fs = std::filesystem;
using json::Fields;

std::string in(const std::string& folder, const char* file) {
    return (fs::path(folder) / file).string();
}

bool is_there(const std::string& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// A JSON object in a file, with what its fields point into.
struct Document {
    json::Json json;
    std::string path;
    Result<Fields> fields() const { return Fields::of(json, path); }
};

Result<Document> read_document(const std::string& folder, const char* file) {
    Document document{{}, in(folder, file)};
    BIFOCAL_TRY(document.json, json::read_file(document.path));
    return document;
}

// `text_config` of a model that also sees images, else `config` itself.
Result<Fields> text_part(const Fields& config) {
    BIFOCAL_TRY(const auto text, config.object("text_config"));
    return text ? *text : config;
}

}  // namespace

Result<Source> open_folder(const std::string& path, int64_t tokens) {
    if (!is_there(in(path, "config.json")))
        return Error{.what = "the folder is no model",
                     .where = path,
                     .expected = "config.json and *.safetensors in it",
                     .hint = "give a folder of that kind or a .gguf file"};
    BIFOCAL_TRY(const Document document, read_document(path, "config.json"));
    BIFOCAL_TRY(const Fields config, document.fields());
    BIFOCAL_TRY(const Fields text, text_part(config));
    BIFOCAL_TRY(const auto architectures, config.strings("architectures"));
    BIFOCAL_TRY(const auto model_type, config.string("model_type"));
    Source source;
    if (is_student(config)) {
        BIFOCAL_TRY(source.family, student_teacher(config));
        BIFOCAL_TRY(source.spec, spec_from_student(*source.family, config, tokens));
    } else {
        BIFOCAL_TRY(source.family, family_of_hf(architectures.value_or(std::vector<std::string>{}),
                                                model_type.value_or(""), document.path));
        BIFOCAL_TRY(source.spec, spec_from_hf(*source.family, text, tokens));
        // The head belongs to the whole model: beside a text_config, the outer word counts.
        BIFOCAL_TRY(const auto tied, config.boolean("tie_word_embeddings"));
        if (tied) source.spec.tied_embedding = *tied;
    }
    if (is_there(in(path, "generation_config.json"))) {
        BIFOCAL_TRY(const Document generation, read_document(path, "generation_config.json"));
        BIFOCAL_TRY(const Fields fields, generation.fields());
        BIFOCAL_TRY(const auto stops, stops_from_generation_config(fields));
        source.spec.stop_tokens.insert(source.spec.stop_tokens.end(), stops.begin(), stops.end());
    }

    BIFOCAL_TRY(const safetensors::File file, safetensors::File::open_folder(path));
    source.format = "safetensors";
    if (file.shards().size() > 1) source.format += fmt::format(", {} shards", file.shards().size());
    for (const std::string& shard : file.shards()) {
        std::error_code ignored;
        source.file_bytes += static_cast<int64_t>(fs::file_size(shard, ignored));
    }
    source.name = fs::path(path).filename().string();
    source.notes = file.warnings();
    source.checkpoint.where = path;
    for (const safetensors::TensorInfo& info : file.tensors()) {
        const auto is_start = [&](std::string_view prefix) {
            return info.name.starts_with(prefix);
        };
        if (std::ranges::any_of(source.family->skipped, is_start)) continue;
        BIFOCAL_TRY(Tensor tensor, file.tensor(info.name));
        source.checkpoint.tensors.emplace(info.name, std::move(tensor));
    }

    if (is_there(in(path, "tokenizer.json"))) {
        BIFOCAL_TRY(source.tokenizer, tokenizer::Tokenizer::from_json_file(path));
    }
    BIFOCAL_TRY(const bool has_template, has_template(path));
    if (has_template) {
        BIFOCAL_TRY(FoundTemplate found, find_template(path));
        source.chat_template = std::move(found.source);
    }
    return source;
}

}  // namespace bifocal
