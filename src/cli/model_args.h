// The flags that say which model runs in which layout, and what they open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "bifocal/session.h"

namespace CLI {
class App;
}

namespace bifocal::cli {

struct ModelArgs {
    std::string path;  // "": the default model
    std::string attention, sink_logits, kv_type, mem_per_seq, checkpoint_mem;
    int64_t capacity = 0;  // -c; 0: not given
    int64_t chunk = 256;
    int64_t checkpoint_every = 256;
    int threads = 0;
    bool exact = false;
};

// -m, --exact, -t, -c, --kv-type, --sink-logits, --chunk
void add_model_options(CLI::App& app, ModelArgs& args);
// --attention and --mem-per-seq of commands that run one layout
void add_layout_options(CLI::App& app, ModelArgs& args);

// --checkpoint-mem and --checkpoint-every-n-tokens of commands whose sessions may go back
void add_checkpoint_options(CLI::App& app, ModelArgs& args);

// Where -m points, or the default model: $BIFOCAL_MODEL, then the caches of the user and of the
// working folder.
Result<std::string> find_model(const std::string& path);

struct OpenModel {
    Model model;
    KvType kv_type;
    int64_t budget = 0;            // --mem-per-seq in bytes; 0: none
    int64_t checkpoint_bytes = 0;  // --checkpoint-mem
};
// `kv_type`, `capacity`: of a snapshot that will be loaded, used where flags are silent.
Result<OpenModel> open_model(const ModelArgs& args, std::optional<KvType> kv_type = {});

// `capacity`: of full attention where -c is silent; 0: the model's trained length.
EngineOptions engine_options(const ModelArgs& args, const OpenModel& open, int64_t capacity = 0);

// "full_attention in every layer", or "2 layouts: ..." in few words.
std::string layout_text(const Model& model);
// The notes of a model on standard error.
void print_notes(const Model& model);

}  // namespace bifocal::cli
