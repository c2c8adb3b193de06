#include "model/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/atomic_file.h"
#include "core/dequant.h"
#include "core/json/json.h"
#include "core/quantise.h"
#include "formats/gguf/file.h"
#include "formats/safetensors/writer.h"
#include "formats/tokenizer/gguf_metadata.h"
#include "formats/tokenizer/json_writer.h"
#include "model/build.h"
#include "model/calibrate.h"
#include "model/identity.h"
#include "model/layout.h"
#include "model/source.h"
#include "model/stored_experts.h"
#include "model/student.h"

namespace bifocal {
namespace {

namespace fs = std::filesystem;
using json::OrderedJson;

constexpr int64_t kMaxShardBytes = int64_t{5} << 30;
// What a folder has beside weights and config.json.
constexpr const char* kSideFiles[] = {
    "tokenizer.json",      "tokenizer_config.json",  "special_tokens_map.json",
    "chat_template.jinja", "generation_config.json", "vocab.json",
    "merges.txt"};

Tensor as_dtype(const Tensor& tensor, DType dtype) {
    if (tensor.dtype == dtype) return tensor;
    std::byte* data = nullptr;
    Tensor made = make_tensor(dtype, tensor.shape, &data);
    const int64_t rows = tensor.shape[0];
    const int64_t width = tensor.elems() / rows, row_bytes = dtype_bytes(dtype, width);
    std::vector<float> values(static_cast<size_t>(width));
    for (int64_t r = 0; r < rows; ++r) {
        dequantise_row(tensor.dtype, tensor.bytes.data() + r * tensor.row_bytes(), values);
        quantise_row(dtype, values, data + r * row_bytes);
    }
    return made;
}

class Conversion {
  public:
    Conversion(Source source, const ConvertOptions& options)
        : source_(std::move(source)),
          options_(options),
          finder_(source_.checkpoint, source_.spec) {}

    Status run() {
        BIFOCAL_TRY_STATUS(choose_layout());
        if (options_.calibration_text) BIFOCAL_TRY_STATUS(calibrate(*options_.calibration_text));
        const auto n_layers = static_cast<int64_t>(source_.spec.layers.size());
        for (const char* name : {"model.embed_tokens.weight", "model.norm.weight"}) {
            BIFOCAL_TRY(Tensor tensor, finder_.model_weight(name, true));
            add(name, tensor);
        }
        if (!source_.spec.tied_embedding) {
            BIFOCAL_TRY(Tensor head, finder_.model_weight("lm_head.weight", true));
            add("lm_head.weight", head);
        }
        for (int64_t i = 0; i < n_layers; ++i) {
            BIFOCAL_TRY_STATUS(convert_layer(i));
            if (options_.on_layer) options_.on_layer(i + 1, n_layers);
        }
        return {};
    }

    const Source& source() const { return source_; }
    const std::vector<MixerSpec>& layout() const { return layout_; }
    std::span<const safetensors::NamedTensor> tensors() const { return tensors_; }
    const Converted& counts() const { return counts_; }

  private:
    Status choose_layout() {
        const auto n_layers = static_cast<int64_t>(source_.spec.layers.size());
        BIFOCAL_TRY(const std::vector<MixerSpec> wanted,
                    layout_from(source_.spec, options_.attention));
        for (const int64_t layer : options_.layers)
            if (layer < 0 || layer >= n_layers)
                return Error{.what = "no such layer",
                             .expected = fmt::format("0 to {}", n_layers - 1),
                             .got = fmt::format("{}", layer),
                             .kind = ErrorKind::usage};
        const bool says_every_layer = options_.attention.starts_with('@');
        bool replaces = false;
        for (int64_t i = 0; i < n_layers; ++i) {
            const bool is_chosen = options_.layers.empty() ||
                                   std::ranges::find(options_.layers, i) != options_.layers.end();
            const LayerSpec& layer = source_.spec.layers[i];
            replaces = replaces || (is_chosen && (says_every_layer || !layer.is_native_linear));
            BIFOCAL_TRY(std::unique_ptr<Mixer> mixer,
                        make_mixer(is_chosen ? wanted[i] : layer.mixer, layer.context));
            MixerSpec explicit_spec = mixer->spec();
            explicit_spec.options.erase("sink_logits");  // they are in the student
            layout_.push_back(std::move(explicit_spec));
            mixers_.push_back(std::move(mixer));
        }
        if (!replaces)
            return Error{.what = "the chosen layers are linear in this model",
                         .expected = "others, or @layout.json, which says each layer",
                         .kind = ErrorKind::usage};
        return {};
    }

    // Sinks that the student has and its teacher does not.
    Result<std::vector<SinkTask>> sink_tasks() {
        std::vector<SinkTask> tasks;
        for (int64_t i = 0; i < std::ssize(mixers_); ++i) {
            std::vector<WeightSpec> wanted = mixers_[i]->weights();
            const auto sinks = std::ranges::find(wanted, kSinks, &WeightSpec::name);
            const int64_t window = layout_[i].options.value("window", int64_t{0});
            if (sinks == wanted.end() || window == 0) continue;
            sinks->required = false;
            BIFOCAL_TRY(const Tensor own, finder_.layer_weight(i, *sinks));
            if (!own.bytes.empty()) continue;
            const LayerSpec& layer = source_.spec.layers[i];
            SinkTask task{i, window, layout_[i].options.value("sink_tokens", int64_t{0}), {}};
            BIFOCAL_TRY(const std::unique_ptr<Mixer> teacher,
                        make_mixer(layer.mixer, layer.context));
            for (const WeightSpec& weight : teacher->weights()) {
                BIFOCAL_TRY(Tensor tensor, finder_.layer_weight(i, weight));
                if (!tensor.bytes.empty()) task.weights.emplace(weight.name, std::move(tensor));
            }
            tasks.push_back(std::move(task));
        }
        return tasks;
    }

    Status calibrate(const std::string& text) {
        BIFOCAL_TRY(const std::vector<SinkTask> tasks, sink_tasks());
        if (tasks.empty())
            return Error{.what = "nothing to calibrate",
                         .where = "--calibrate",
                         .expected = "a layout with sink=learned and a teacher without sinks",
                         .got = options_.attention,
                         .kind = ErrorKind::usage};
        if (!source_.tokenizer)
            return Error{.what = "the teacher has no tokenizer for the text",
                         .where = source_.checkpoint.where};
        int64_t longest = 0;
        for (const SinkTask& task : tasks)
            longest = std::max(longest, task.window + task.sink_tokens);
        BIFOCAL_TRY(std::vector<int32_t> tokens, source_.tokenizer->encode(text));
        if (std::ssize(tokens) <= longest)
            return Error{.what = "the calibration text is too short",
                         .where = "--calibrate",
                         .expected = fmt::format("more than {} tokens, window and sinks", longest),
                         .got = fmt::format("{}", tokens.size())};
        const int64_t most = std::max(kCalibrationTokens, 4 * longest);
        tokens.resize(std::min(tokens.size(), static_cast<size_t>(most)));
        ModelInfo info;
        BIFOCAL_TRY(const Decoder teacher, build_decoder(source_.spec, finder_, {}, info));
        BIFOCAL_TRY(auto sinks, calibrate_sinks(teacher, tasks, tokens, options_.calibration_first,
                                                options_.on_calibrated_layer));
        for (size_t i = 0; i < tasks.size(); ++i)
            calibrated_.emplace(name_of(tasks[i].layer, kSinks), std::move(sinks[i]));
        return {};
    }

    Status convert_layer(int64_t layer) {
        std::set<std::string, std::less<>> done;
        for (const WeightSpec& weight : mixers_[layer]->weights()) {
            BIFOCAL_TRY(Tensor tensor, weight_of(layer, weight));
            if (!tensor.bytes.empty()) add(name_of(layer, weight.name), tensor);
            done.insert(weight.name);
        }
        const LayerContext& context = source_.spec.layers[layer].context;
        const bool has_experts = source_.spec.layers[layer].experts.has_value();
        if (has_experts) {
            BIFOCAL_TRY(const StoredExperts experts,
                        StoredExperts::find(finder_, source_.spec, layer));
            for (const auto& [name, tensor] : experts.tensors()) add(name_of(layer, name), tensor);
        }
        for (const WeightRow& row : layer_weight_rows()) {
            const bool is_mixers = row.name.starts_with("self_attn.") ||
                                   row.name.starts_with("linear_attn.") || done.contains(row.name);
            const bool is_other_bias = row.name.ends_with(".bias") && !source_.spec.mlp_bias;
            const bool is_dense = has_experts && row.name.starts_with("mlp.");
            if (is_mixers || is_other_bias || is_dense || find_layer_row(row.name, context) != &row)
                continue;
            BIFOCAL_TRY(Tensor tensor, finder_.layer_weight(layer, row.name, true));
            add(name_of(layer, row.name), tensor);
            done.insert(std::string(row.name));
        }
        return {};
    }

    // What a softmax layer cannot begin without.
    bool is_teachers(int64_t layer, std::string_view name) const {
        return name.starts_with("self_attn.") && name != kSinks &&
               find_layer_row(name, source_.spec.layers[layer].context);
    }

    // The teacher's weight of this name, else the one it begins as, else a new one.
    Result<Tensor> weight_of(int64_t layer, const WeightSpec& weight) {
        if (is_teachers(layer, weight.name)) return finder_.layer_weight(layer, weight);
        WeightSpec optional = weight;
        optional.required = false;
        BIFOCAL_TRY(Tensor own, finder_.layer_weight(layer, optional));
        if (!own.bytes.empty() || !weight.required) return own;
        if (!weight.init.teacher.empty()) {
            BIFOCAL_TRY(Tensor begun, teachers(layer, weight, optional));
            if (!begun.bytes.empty()) return begun;
        }
        std::byte* data = nullptr;
        Tensor made = make_tensor(DType::f32, weight.shape, &data);
        const std::span<float> values(reinterpret_cast<float*>(data),
                                      static_cast<size_t>(made.elems()));
        std::ranges::fill(values, 0.0f);
        const std::string name = name_of(layer, weight.name);
        Rng rng{hash_bytes(std::as_bytes(std::span(name)), options_.seed)};
        if (weight.init.fill) weight.init.fill(values, rng);
        if (const auto found = calibrated_.find(name); found != calibrated_.end()) {
            std::ranges::copy(found->second, values.begin());
            ++counts_.n_calibrated;
        }
        ++counts_.n_created;
        counts_.n_created_values += made.elems();
        created_.insert(name);
        return made;
    }

    // What a new weight begins as; without bytes where the teacher has none.
    Result<Tensor> teachers(int64_t layer, const WeightSpec& weight, WeightSpec wanted) {
        const LayerContext& context = source_.spec.layers[layer].context;
        wanted.name = weight.init.teacher;
        const bool has_gates = weight.init.queries_only;
        if (has_gates) wanted.shape[0] *= 2;
        BIFOCAL_TRY(Tensor begun, finder_.layer_weight(layer, wanted));
        if (!has_gates || begun.bytes.empty()) return begun;
        return begun.rows_of_groups(context.n_heads, 0, context.head_dim);
    }

    static std::string name_of(int64_t layer, std::string_view name) {
        return fmt::format("model.layers.{}.{}", layer, name);
    }

    // New weights and vectors stay FP32 or as they are, and so do packed codes.
    void add(const std::string& name, const Tensor& tensor) {
        const bool is_matrix =
            tensor.shape.size() > 1 && is_real(tensor.dtype) && !created_.contains(name);
        const DType stored = is_quantised(tensor.dtype) ? DType::bf16 : tensor.dtype;
        Tensor written = is_matrix ? as_dtype(tensor, options_.dtype.value_or(stored)) : tensor;
        ++counts_.n_tensors;
        counts_.bytes += static_cast<int64_t>(written.bytes.size());
        tensors_.push_back({name, std::move(written)});
    }

    Source source_;
    const ConvertOptions& options_;
    WeightFinder finder_;
    std::vector<MixerSpec> layout_;
    std::vector<std::unique_ptr<Mixer>> mixers_;
    std::vector<safetensors::NamedTensor> tensors_;
    std::set<std::string, std::less<>> created_;
    std::map<std::string, std::vector<float>, std::less<>> calibrated_;
    Converted counts_;
};

Status write_text(const fs::path& path, const std::string& text) {
    const std::span<const std::byte> part = std::as_bytes(std::span(text));
    return write_file_atomically(path.string(), {&part, 1});
}

Status copy_side_files(const fs::path& from, const fs::path& to) {
    for (const char* name : kSideFiles) {
        std::error_code failed;
        if (!fs::exists(from / name, failed)) continue;
        fs::copy_file(from / name, to / name, failed);
        if (failed)
            return Error{.what = "cannot copy a file",
                         .where = (from / name).string(),
                         .got = failed.message()};
    }
    return {};
}

// The same from the metadata of a GGUF file.
Status write_side_files(const Source& source, const fs::path& to) {
    BIFOCAL_TRY(const gguf::File file, gguf::File::open(source.checkpoint.where));
    if (source.tokenizer) {
        BIFOCAL_TRY(const tokenizer::GgufVocab vocab, tokenizer::read_vocab(file.metadata()));
        BIFOCAL_TRY(const std::string text,
                    tokenizer::to_tokenizer_json(vocab, source.checkpoint.where));
        BIFOCAL_TRY_STATUS(write_text(to / "tokenizer.json", text));
        OrderedJson config = OrderedJson::object();
        const auto token = [&](const char* name, const std::optional<int64_t>& id) {
            if (id && *id >= 0 && *id < std::ssize(vocab.tokens))
                config[name] = vocab.tokens[static_cast<size_t>(*id)];
        };
        token("bos_token", vocab.bos);
        token("eos_token", vocab.eos);
        token("pad_token", vocab.pad);
        token("unk_token", vocab.unk);
        if (source.chat_template) config["chat_template"] = *source.chat_template;
        BIFOCAL_TRY_STATUS(
            write_text(to / "tokenizer_config.json", json::to_text(config, 2) + "\n"));
    }
    const std::vector<int32_t> stops =
        source.tokenizer ? source.tokenizer->special().stops : source.spec.stop_tokens;
    return write_text(to / "generation_config.json",
                      json::to_text(OrderedJson{{"eos_token_id", stops}}, 2) + "\n");
}

Result<OrderedJson> teacher_config(const Source& source, const Family& family) {
    if (source.checkpoint.is_gguf) return config_of(family, source.spec, source.checkpoint.where);
    const std::string path = (fs::path(source.checkpoint.where) / "config.json").string();
    BIFOCAL_TRY(const json::Json plain, json::read_file(path));
    OrderedJson config = OrderedJson::parse(json::to_text(plain));
    if (!config.contains("text_config")) return config;
    OrderedJson text = config["text_config"];
    text["tie_word_embeddings"] = source.spec.tied_embedding;  // the outer word counts
    return text;
}

// A place beside `path` that nobody uses.
fs::path beside(const fs::path& path, const char* suffix) {
    for (int i = 0;; ++i) {
        fs::path candidate = path;
        candidate += fmt::format(".{}{}", suffix, i);
        std::error_code ignored;
        if (!fs::exists(candidate, ignored)) return candidate;
    }
}

Status write_student(const Conversion& conversion, const fs::path& folder) {
    const Source& source = conversion.source();
    BIFOCAL_TRY(const OrderedJson teacher, teacher_config(source, *source.family));
    const OrderedJson config = student_config(*source.family, teacher, conversion.layout());
    BIFOCAL_TRY_STATUS(safetensors::write_folder(
        folder.string(), conversion.tensors(), kMaxShardBytes,
        {{"format", "pt"}, {"teacher", fs::path(source.checkpoint.where).filename().string()}}));
    BIFOCAL_TRY_STATUS(source.checkpoint.is_gguf
                           ? write_side_files(source, folder)
                           : copy_side_files(source.checkpoint.where, folder));
    return write_text(folder / "config.json", json::to_text(config, 2) + "\n");
}

}  // namespace

Result<Converted> convert_model(const std::string& teacher, const std::string& student,
                                const ConvertOptions& options) {
    fs::path target = fs::path(student).lexically_normal();
    if (!target.has_filename()) target = target.parent_path();
    std::error_code failed;
    const bool is_there = fs::exists(target, failed);
    if (is_there && !options.replaces)
        return Error{.what = "the student's folder exists already",
                     .where = target.string(),
                     .hint = "--force replaces it"};
    std::error_code no_folder;
    const bool is_folder = fs::is_directory(teacher, no_folder);
    BIFOCAL_TRY(Source source, is_folder ? open_folder(teacher, 0) : open_gguf(teacher, 0));
    Conversion conversion(std::move(source), options);
    BIFOCAL_TRY_STATUS(conversion.run());

    const fs::path work = beside(target, "partial");
    const auto write = [&]() -> Status {
        fs::create_directories(work, failed);
        if (failed)
            return Error{.what = "cannot make the student's folder",
                         .where = work.string(),
                         .got = failed.message()};
        return write_student(conversion, work);
    };
    const auto rename = [&](const fs::path& from, const fs::path& to) -> Status {
        fs::rename(from, to, failed);
        if (!failed) return {};
        return Error{.what = "cannot rename a folder",
                     .where = from.string(),
                     .expected = to.string(),
                     .got = failed.message()};
    };
    Status status = write();
    const fs::path old = beside(target, "old");
    if (status.ok() && is_there) status = rename(target, old);
    if (status.ok()) {
        status = rename(work, target);
        if (!status.ok() && is_there) (void)rename(old, target);
    }
    std::error_code ignored;
    if (!status.ok()) fs::remove_all(work, ignored);
    if (status.ok() && is_there) fs::remove_all(old, ignored);
    if (!status.ok()) return std::move(status).error();
    return conversion.counts();
}

}  // namespace bifocal
