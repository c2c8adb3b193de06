// Model: a checkpoint on disk (GGUF file or Hugging Face folder), its tokenizer and chat template,
// ready to run at a chosen attention layout. Immutable once loaded; safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bifocal/error.h"

namespace bifocal {

class Decoder;
struct ModelSpec;
namespace tokenizer {
class Tokenizer;
}

struct ModelOptions {
    // A SPEC for every layer that is not linear in the checkpoint, or "@layout.json" for every
    // layer; "": the checkpoint's own
    std::string attention = {};
    bool exact = false;  // FP32 activations and dequantised weights
    // A safetensors file with "model.layers.N.self_attn.sinks" [heads], for layers whose mixer says
    // sink=learned and names no file of its own; "": the checkpoint has them.
    std::string sink_logits = {};
    // How long a sequence will get, for checkpoints with two sets of RoPE frequencies (longrope):
    // above the original context the long ones. 0: the trained length.
    int64_t tokens = 0;
};

// One layer as `inspect` shows it.
struct LayerInfo {
    std::string mixer;                 // "sliding_window:window=508,sink_tokens=4", every option
    std::vector<std::string> weights;  // "attn_q q4_1 [576, 576]": name, stored type, shape
    std::vector<std::string> choices;  // which kernel or form runs, and why
    int64_t weight_bytes = 0;          // read per token
};

struct DTypeCount {
    std::string dtype;
    int64_t tensors = 0;
    int64_t bytes = 0;
};

// What the files hold and what was made of it.
struct ModelInfo {
    std::string path;
    std::string format;  // "GGUF version 3", "safetensors, 2 shards"
    std::string family;
    std::string name;  // general.name; may be empty
    int64_t file_bytes = 0;
    int64_t n_tensors = 0;
    int64_t n_parameters = 0;        // a tied head counts once
    std::vector<DTypeCount> dtypes;  // most bytes first
    std::vector<LayerInfo> layers;
    std::vector<std::string> head;  // embedding and head: type, shape, kernel
    int64_t weight_bytes = 0;       // read per token: layers and head
};

class Model {
  public:
    // `path`: a .gguf file (the first part of a split one) or a folder with config.json.
    static Result<Model> load(const std::string& path, const ModelOptions& options = {});
    Model(Model&&) noexcept;
    Model& operator=(Model&&) noexcept;
    ~Model();

    const ModelSpec& spec() const;
    const Decoder& decoder() const;
    const ModelOptions& options() const;
    // Null when the folder has no tokenizer.json.
    const tokenizer::Tokenizer* tokenizer() const;
    const std::optional<std::string>& chat_template() const;  // Jinja source
    // Ids that end a text or a turn, from every file that names some.
    const std::vector<int32_t>& stop_tokens() const;
    int64_t context_length() const;  // trained length

    // 64 bits of everything that decides the logits but the attention layout: the architecture's
    // numbers and every byte of the weights as stored.
    uint64_t identity() const;
    const ModelInfo& info() const;
    // What is doubtful or unused in the files, one line each.
    const std::vector<std::string>& notes() const;

  private:
    struct Impl;
    explicit Model(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace bifocal
