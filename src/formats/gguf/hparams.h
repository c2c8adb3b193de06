// The sizes that every decoder-only architecture states in its metadata, read and checked against
// one another, so that what follows may divide by them and allocate from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "formats/gguf/file.h"

namespace bifocal::gguf {

// Keys are "{architecture}.NAME"; NAME is given where it differs.
struct Hparams {
    std::string architecture;  // general.architecture
    int64_t block_count = 0;   // layers, 1 to 1024
    int64_t context_length = 0;
    int64_t embedding_length = 0;
    int64_t vocab_size = 0;            // rows of the embedding; not below the number of tokens
    int64_t key_length = 0;            // attention.key_length; embedding_length / heads if missing
    int64_t value_length = 0;          // attention.value_length; likewise
    int64_t rope_dimension_count = 0;  // rope.dimension_count; key_length if missing
    float norm_eps = 0;                // attention.layer_norm_rms_epsilon or .layer_norm_epsilon
    float rope_freq_base = 10000;      // rope.freq_base
    std::vector<int64_t> head_count;   // [layers] attention.head_count
    std::vector<int64_t> head_count_kv;        // [layers] attention.head_count_kv
    std::vector<int64_t> feed_forward_length;  // [layers]
    std::optional<int64_t> sliding_window;     // attention.sliding_window
    int64_t expert_count = 0;
    int64_t expert_used_count = 0;
    std::optional<int64_t> conv_kernel;  // ssm.conv_kernel
};

Result<Hparams> check_hparams(const File& file);

// The tensor under this name, with exactly this shape (outermost first).
Result<Tensor> tensor_of_shape(const File& file, std::string_view name,
                               const std::vector<int64_t>& shape);

}  // namespace bifocal::gguf
