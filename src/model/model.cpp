#include "bifocal/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "model/build.h"
#include "model/identity.h"
#include "model/layout.h"
#include "model/source.h"

namespace bifocal {

struct Model::Impl {
    ModelOptions options;
    Decoder decoder;
    std::optional<tokenizer::Tokenizer> tokenizer;
    std::optional<std::string> chat_template;
    std::vector<int32_t> stop_tokens;
    uint64_t identity = 0;
    ModelInfo info;
    std::vector<std::string> notes;
};

namespace {

Result<Source> open_source(const std::string& path, int64_t tokens) {
    std::error_code failed;
    const auto status = std::filesystem::status(path, failed);
    if (failed || !std::filesystem::exists(status))
        return Error{.what = "no such file or folder", .where = path};
    if (std::filesystem::is_directory(status)) return open_folder(path, tokens);
    return open_gguf(path, tokens);
}

Status replace_layout(ModelSpec& spec, const std::string& attention) {
    if (attention.empty()) return {};
    BIFOCAL_TRY(std::vector<MixerSpec> layout, layout_from(spec, attention));
    for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].mixer = std::move(layout[i]);
    return {};
}

// A tokenizer must not produce ids that the model has no row for; rows without a token are padding.
Status check_vocabulary(const Source& source, std::vector<std::string>& notes) {
    if (!source.tokenizer) return {};
    const int64_t tokens = source.tokenizer->vocab_size(), rows = source.spec.vocab_size;
    if (tokens > rows)
        return Error{.what = "the tokenizer has more tokens than the embedding has rows",
                     .where = source.checkpoint.where,
                     .expected = fmt::format("at most {}", rows),
                     .got = fmt::format("{}", tokens)};
    if (tokens < rows)
        notes.push_back(fmt::format("{} rows of the embedding are padding: {} tokens, {} rows",
                                    rows - tokens, tokens, rows));
    return {};
}

std::vector<int32_t> all_stop_tokens(const Source& source, std::vector<std::string>& notes) {
    std::vector<int32_t> all = source.spec.stop_tokens;
    if (source.tokenizer) {
        const std::vector<int32_t>& more = source.tokenizer->special().stops;
        all.insert(all.end(), more.begin(), more.end());
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase_if(all, [&](int32_t id) {
        const bool outside = id < 0 || id >= source.spec.vocab_size;
        if (outside) notes.push_back(fmt::format("stop token {} is outside the vocabulary", id));
        return outside;
    });
    return all;
}

// Bytes of MXFP4 codes hold two each, and their exponents are none.
int64_t parameters(const std::string& name, const Tensor& tensor) {
    if (tensor.dtype != DType::u8) return tensor.elems();
    return name.ends_with("_blocks") ? 2 * tensor.elems() : 0;
}

void count_tensors(const WeightMap& tensors, ModelInfo& info) {
    std::map<std::string, DTypeCount> counts;
    for (const auto& [name, tensor] : tensors) {
        DTypeCount& count = counts[std::string(dtype_info(tensor.dtype).name)];
        count.dtype = dtype_info(tensor.dtype).name;
        ++count.tensors;
        count.bytes += static_cast<int64_t>(tensor.bytes.size());
        ++info.n_tensors;
        info.n_parameters += parameters(name, tensor);
    }
    for (auto& [name, count] : counts) info.dtypes.push_back(std::move(count));
    std::ranges::sort(info.dtypes, std::ranges::greater{}, &DTypeCount::bytes);
}

// Frequencies that were read into the spec are not weights of a layer, nor is what repeats it.
void note_unused(const WeightFinder& finder, const Family& family,
                 std::vector<std::string>& notes) {
    std::vector<std::string> names = finder.unused();
    std::erase_if(names, [&](const std::string& name) {
        return name.starts_with("rope_f") ||
               std::ranges::any_of(family.derived_tensors,
                                   [&](std::string_view tail) { return name.ends_with(tail); });
    });
    if (names.empty()) return;
    constexpr size_t kShown = 8;
    const size_t n = names.size();
    names.resize(std::min(n, kShown));
    notes.push_back(fmt::format("{} tensors are not used: {}{}", n, fmt::join(names, ", "),
                                n > kShown ? ", ..." : ""));
}

}  // namespace

Result<Model> Model::load(const std::string& path, const ModelOptions& options) {
    BIFOCAL_TRY(Source source, open_source(path, options.tokens));
    auto impl = std::make_unique<Impl>();
    impl->options = options;
    impl->notes = std::move(source.notes);
    impl->identity = model_identity(source.spec, source.checkpoint.tensors);

    ModelInfo& info = impl->info;
    info.path = path;
    info.format = source.format;
    info.family = source.spec.family;
    info.name = source.name;
    info.file_bytes = source.file_bytes;
    count_tensors(source.checkpoint.tensors, info);
    BIFOCAL_TRY_STATUS(check_vocabulary(source, impl->notes));
    impl->stop_tokens = all_stop_tokens(source, impl->notes);
    source.spec.stop_tokens = impl->stop_tokens;

    BIFOCAL_TRY_STATUS(replace_layout(source.spec, options.attention));
    WeightFinder finder(source.checkpoint, source.spec);
    BIFOCAL_TRY(impl->decoder, build_decoder(source.spec, finder, options, info));
    note_unused(finder, *source.family, impl->notes);
    impl->tokenizer = std::move(source.tokenizer);
    impl->chat_template = std::move(source.chat_template);
    return Model(std::move(impl));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const ModelSpec& Model::spec() const {
    return impl_->decoder.spec;
}
const Decoder& Model::decoder() const {
    return impl_->decoder;
}
const ModelOptions& Model::options() const {
    return impl_->options;
}
const tokenizer::Tokenizer* Model::tokenizer() const {
    return impl_->tokenizer ? &*impl_->tokenizer : nullptr;
}
const std::optional<std::string>& Model::chat_template() const {
    return impl_->chat_template;
}
const std::vector<int32_t>& Model::stop_tokens() const {
    return impl_->stop_tokens;
}
int64_t Model::context_length() const {
    return impl_->decoder.spec.context_length;
}
uint64_t Model::identity() const {
    return impl_->identity;
}
const ModelInfo& Model::info() const {
    return impl_->info;
}
const std::vector<std::string>& Model::notes() const {
    return impl_->notes;
}

}  // namespace bifocal
