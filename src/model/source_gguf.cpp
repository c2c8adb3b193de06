#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "formats/gguf/file.h"
#include "formats/template/find_template.h"
#include "formats/tokenizer/gguf_metadata.h"
#include "model/families/readers.h"
#include "model/source.h"

namespace bifocal {
namespace {

// Blocks after the last layer predict further tokens.
void drop_blocks_from(int64_t n_layers, WeightMap& tensors) {
    std::erase_if(tensors, [&](const auto& entry) {
        int64_t block = -1;
        const std::string& name = entry.first;
        if (name.starts_with("blk."))
            std::from_chars(name.data() + 4, name.data() + name.size(), block);
        return block >= n_layers;
    });
}

}  // namespace

Result<Source> open_gguf(const std::string& path, int64_t tokens) {
    BIFOCAL_TRY(const gguf::File file, gguf::File::open(path));
    const gguf::Metadata& metadata = file.metadata();
    BIFOCAL_TRY(const std::string architecture, metadata.get_string("general.architecture"));
    BIFOCAL_TRY(const Family* family, family_of_gguf(architecture, path));

    Source source;
    source.family = family;
    source.format = fmt::format("GGUF version {}", file.version());
    if (file.parts().size() > 1) source.format += fmt::format(", {} parts", file.parts().size());
    for (const std::string& part : file.parts()) {
        std::error_code ignored;
        source.file_bytes += static_cast<int64_t>(std::filesystem::file_size(part, ignored));
    }
    BIFOCAL_TRY(source.name, metadata.get_string_or("general.name", ""));
    source.notes = file.warnings();

    source.checkpoint.where = path;
    source.checkpoint.is_gguf = true;
    source.checkpoint.is_qk_paired = family->gguf_paired_qk;
    for (const gguf::TensorInfo& info : file.tensors()) {
        BIFOCAL_TRY(Tensor tensor, file.tensor(info.name));
        source.checkpoint.tensors.emplace(info.name, std::move(tensor));
    }
    BIFOCAL_TRY(source.spec, spec_from_gguf(*family, file, source.checkpoint, tokens));
    if (metadata.has(architecture + ".nextn_predict_layers"))
        drop_blocks_from(std::ssize(source.spec.layers), source.checkpoint.tensors);

    BIFOCAL_TRY(const std::string tokenizer_model,
                metadata.get_string_or("tokenizer.ggml.model", "none"));
    if (tokenizer_model != "none" || metadata.has("tokenizer.huggingface.json")) {
        BIFOCAL_TRY(const tokenizer::GgufVocab vocab, tokenizer::read_vocab(metadata));
        BIFOCAL_TRY(source.tokenizer, tokenizer::Tokenizer::from_gguf(vocab, path));
    }
    if (has_template(metadata)) {
        BIFOCAL_TRY(FoundTemplate found, find_template(metadata));
        source.chat_template = std::move(found.source);
    }
    return source;
}

}  // namespace bifocal
