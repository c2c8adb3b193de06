// One key a line.
#include "formats/tokenizer/gguf_metadata.h"

#include <fstream>
#include <limits>

#include "formats/gguf/file.h"

namespace bifocal::tokenizer {
namespace {

// A file converted without a token of this kind may hold -1 or 2^32 - 1.
Result<std::optional<int64_t>> read_id(const gguf::Metadata& metadata, std::string_view name) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    if (!metadata.has(key)) return std::optional<int64_t>();
    BIFOCAL_TRY(const int64_t id,
                metadata.get_integer(key, -1, std::numeric_limits<uint32_t>::max()));
    if (id == -1 || id == std::numeric_limits<uint32_t>::max()) return std::optional<int64_t>();
    return std::optional<int64_t>(id);
}

Result<std::optional<bool>> read_flag(const gguf::Metadata& metadata, std::string_view name) {
    const std::string key = "tokenizer.ggml." + std::string(name);
    if (!metadata.has(key)) return std::optional<bool>();
    BIFOCAL_TRY(const bool flag, metadata.get_bool(key));
    return std::optional<bool>(flag);
}

}  // namespace

Result<GgufVocab> read_vocab(const gguf::Metadata& metadata) {
    GgufVocab vocab;
    BIFOCAL_TRY(vocab.huggingface_json, metadata.get_string_or("tokenizer.huggingface.json", ""));
    BIFOCAL_TRY(vocab.model, metadata.get_string("tokenizer.ggml.model"));
    BIFOCAL_TRY(vocab.pre, metadata.get_string_or("tokenizer.ggml.pre", ""));
    BIFOCAL_TRY(vocab.tokens, metadata.get_array<std::string>("tokenizer.ggml.tokens"));
    if (metadata.has("tokenizer.ggml.scores")) {
        BIFOCAL_TRY(vocab.scores, metadata.get_array<float>("tokenizer.ggml.scores"));
    }
    if (metadata.has("tokenizer.ggml.token_type")) {
        BIFOCAL_TRY(vocab.token_type, metadata.get_array<int32_t>("tokenizer.ggml.token_type"));
    }
    if (metadata.has("tokenizer.ggml.merges")) {
        BIFOCAL_TRY(vocab.merges, metadata.get_array<std::string>("tokenizer.ggml.merges"));
    }
    BIFOCAL_TRY(vocab.bos, read_id(metadata, "bos"));
    BIFOCAL_TRY(vocab.eos, read_id(metadata, "eos"));
    BIFOCAL_TRY(vocab.eot, read_id(metadata, "eot"));
    BIFOCAL_TRY(vocab.eom, read_id(metadata, "eom"));
    BIFOCAL_TRY(vocab.unk, read_id(metadata, "unknown"));
    BIFOCAL_TRY(vocab.pad, read_id(metadata, "padding"));
    BIFOCAL_TRY(vocab.add_bos, read_flag(metadata, "add_bos_token"));
    BIFOCAL_TRY(vocab.add_eos, read_flag(metadata, "add_eos_token"));
    BIFOCAL_TRY(vocab.add_space_prefix, read_flag(metadata, "add_space_prefix"));
    return vocab;
}

Result<Tokenizer> load_tokenizer(const gguf::Metadata& metadata) {
    BIFOCAL_TRY(const GgufVocab vocab, read_vocab(metadata));
    return Tokenizer::from_gguf(vocab, metadata.source());
}

Result<Tokenizer> load_tokenizer(const std::string& path) {
    char magic[4] = {};
    std::ifstream file(path, std::ios::binary);
    file.read(magic, sizeof magic);
    if (std::string_view(magic, sizeof magic) != "GGUF") return Tokenizer::from_json_file(path);
    BIFOCAL_TRY(const gguf::File model, gguf::File::open(path));
    return load_tokenizer(model.metadata());
}

}  // namespace bifocal::tokenizer
