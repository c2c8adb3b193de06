#include "formats/gguf/hparams.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace bifocal::gguf {
namespace {

// Far above every known model, and small enough that products of two never overflow.
constexpr int64_t kMaxExtent = 1 << 30;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 65536;

class HparamReader {
  public:
    explicit HparamReader(const File& file) : file_(file), metadata_(file.metadata()) {}

    Result<Hparams> read() {
        BIFOCAL_TRY(h_.architecture, metadata_.get_string("general.architecture"));
        BIFOCAL_TRY(h_.block_count, metadata_.get_integer(key("block_count"), 1, kMaxLayers));
        BIFOCAL_TRY(h_.context_length, metadata_.get_integer(key("context_length"), 1, kMaxExtent));
        BIFOCAL_TRY(h_.embedding_length,
                    metadata_.get_integer(key("embedding_length"), 1, kMaxExtent));
        BIFOCAL_TRY(h_.feed_forward_length, metadata_.get_per_layer(key("feed_forward_length"),
                                                                    h_.block_count, 0, kMaxExtent));
        BIFOCAL_TRY_STATUS(read_heads());
        BIFOCAL_TRY_STATUS(read_rope());
        BIFOCAL_TRY_STATUS(read_norm());
        BIFOCAL_TRY_STATUS(read_optional());
        BIFOCAL_TRY_STATUS(read_vocab());
        return std::move(h_);
    }

  private:
    std::string key(std::string_view name) const {
        return fmt::format("{}.{}", h_.architecture, name);
    }

    Status read_heads() {
        BIFOCAL_TRY(h_.head_count, metadata_.get_per_layer(key("attention.head_count"),
                                                           h_.block_count, 1, kMaxHeads));
        h_.head_count_kv = h_.head_count;
        const std::string kv_key = key("attention.head_count_kv");
        if (metadata_.has(kv_key)) {
            BIFOCAL_TRY(h_.head_count_kv,
                        metadata_.get_per_layer(kv_key, h_.block_count, 1, kMaxHeads));
        }
        for (size_t i = 0; i < h_.head_count.size(); ++i) {
            if (h_.head_count[i] % h_.head_count_kv[i] != 0) {
                return metadata_.error(kv_key, fmt::format("heads of layer {} do not divide", i),
                                       fmt::format("a divisor of {}", h_.head_count[i]),
                                       std::to_string(h_.head_count_kv[i]));
            }
        }
        const int64_t heads = h_.head_count[0];
        const bool divides = h_.embedding_length % heads == 0;
        for (const auto& [name, length] : {std::pair{"attention.key_length", &h_.key_length},
                                           std::pair{"attention.value_length", &h_.value_length}}) {
            if (!metadata_.has(key(name)) && !divides) {
                return metadata_.error(
                    key("attention.head_count"), "heads do not divide the embedding",
                    fmt::format("a divisor of {}, or {}", h_.embedding_length, key(name)),
                    std::to_string(heads));
            }
            BIFOCAL_TRY(*length, metadata_.get_integer_or(key(name), 1, kMaxHeads,
                                                          h_.embedding_length / heads));
        }
        return {};
    }

    Status read_rope() {
        const std::string rope_key = key("rope.dimension_count");
        BIFOCAL_TRY(h_.rope_dimension_count,
                    metadata_.get_integer_or(rope_key, 2, h_.key_length, h_.key_length));
        if (h_.rope_dimension_count % 2 != 0) {
            return metadata_.error(rope_key, "rotary dimensions come in pairs", "an even number",
                                   std::to_string(h_.rope_dimension_count));
        }
        return read_positive("rope.freq_base", h_.rope_freq_base);
    }

    Status read_norm() {
        const bool is_rms = metadata_.has(key("attention.layer_norm_rms_epsilon"));
        const std::string name = is_rms || !metadata_.has(key("attention.layer_norm_epsilon"))
                                     ? "attention.layer_norm_rms_epsilon"
                                     : "attention.layer_norm_epsilon";
        return read_positive(name, h_.norm_eps);
    }

    // Finite and above 0. A value that is 0 beforehand has no default: its key must be there.
    Status read_positive(const std::string& name, float& value) {
        if (value == 0 || metadata_.has(key(name))) {
            BIFOCAL_TRY(value, metadata_.get_f32(key(name)));
        }
        if (!std::isfinite(value) || value <= 0) {
            return metadata_.error(key(name), "metadata value out of range",
                                   "a finite number above 0", fmt::format("{}", value));
        }
        return {};
    }

    Status read_optional() {
        // 0 stands for no window: converted Phi-4 models say so.
        BIFOCAL_TRY(const int64_t window,
                    metadata_.get_integer_or(key("attention.sliding_window"), 0, kMaxExtent, 0));
        if (window > 0) h_.sliding_window = window;
        if (metadata_.has(key("ssm.conv_kernel"))) {
            BIFOCAL_TRY(h_.conv_kernel, metadata_.get_integer(key("ssm.conv_kernel"), 1, 16));
        }
        BIFOCAL_TRY(h_.expert_count,
                    metadata_.get_integer_or(key("expert_count"), 0, kMaxHeads, 0));
        BIFOCAL_TRY(h_.expert_used_count,
                    metadata_.get_integer_or(key("expert_used_count"), 0, h_.expert_count, 0));
        return {};
    }

    // Models pad the embedding to round numbers, so rows without a token are allowed; tokens
    // without a row are not.
    Status read_vocab() {
        BIFOCAL_TRY(h_.vocab_size, metadata_.get_integer_or(key("vocab_size"), 1, kMaxExtent, 0));
        if (const TensorInfo* embedding = file_.find_tensor("token_embd.weight")) {
            const int64_t rows = embedding->shape.front();
            if (h_.vocab_size != 0 && h_.vocab_size != rows) {
                return metadata_.error(key("vocab_size"), "the vocabulary does not fit its tensor",
                                       fmt::format("{} (rows of token_embd.weight)", rows),
                                       std::to_string(h_.vocab_size));
            }
            h_.vocab_size = rows;
        }
        const Value* tokens = metadata_.find("tokenizer.ggml.tokens");
        if (!tokens) {
            if (h_.vocab_size == 0) return metadata_.error(key("vocab_size"), "the key is missing");
            return {};
        }
        const auto* array = std::get_if<Array>(&tokens->held);
        if (!array || array->element != ValueType::string) {
            return metadata_.error("tokenizer.ggml.tokens", "metadata value of the wrong type",
                                   "array of string", tokens->label());
        }
        const auto n_tokens = static_cast<int64_t>(array->count);
        if (h_.vocab_size == 0) h_.vocab_size = n_tokens;
        if (n_tokens < 1 || n_tokens > h_.vocab_size) {
            return metadata_.error("tokenizer.ggml.tokens", "impossible number of tokens",
                                   fmt::format("1 to {}", h_.vocab_size), std::to_string(n_tokens));
        }
        return {};
    }

    const File& file_;
    const Metadata& metadata_;
    Hparams h_;
};

}  // namespace

Result<Hparams> check_hparams(const File& file) {
    return HparamReader(file).read();
}

Result<Tensor> tensor_of_shape(const File& file, std::string_view name,
                               const std::vector<int64_t>& shape) {
    BIFOCAL_TRY(Tensor tensor, file.tensor(name));
    if (tensor.shape != shape) {
        return Error{.what = "the tensor has an unexpected shape",
                     .where = fmt::format("{}, tensor '{}'", file.path(), name),
                     .expected = fmt::format("[{}]", fmt::join(shape, ", ")),
                     .got = fmt::format("[{}]", fmt::join(tensor.shape, ", "))};
    }
    return tensor;
}

}  // namespace bifocal::gguf
