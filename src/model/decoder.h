// Decoder: embedding → layers (mixer, feed-forward) → norm → head. The whole forward pass is
// Decoder::forward in decoder.cpp.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mixers/mixer.h"
#include "model/model_spec.h"
#include "ops/ffn.h"
#include "ops/linear.h"

namespace bifocal {

struct DecoderLayer {
    std::unique_ptr<Mixer> mixer;
    ops::FeedForward ffn;
};

// One step's input: T new tokens of each of B sequences.
struct Step {
    View<const int32_t, 2> tokens;       // [B, T]
    std::span<const int64_t> pos;        // [B]
    std::span<std::byte* const> states;  // [B] each a sequence's whole state, see StatePlan
    enum class Logits { none, last, all } logits = Logits::last;
    // Sees the residual stream [B * T, M] before each layer's mixer.
    std::function<void(int64_t layer, View<const float, 2> x)> before_layer = {};
};

// Where each layer's state lies in a sequence's one block of bytes.
struct StatePlan {
    StateOptions options;
    std::vector<StateLayout> layers;
    std::vector<size_t> offsets;  // of each layer's slot
    size_t bytes = 0;             // per sequence, all layers
    int64_t max_tokens = -1;      // smallest capacity of any layer; -1: any number
};

class Decoder {
  public:
    ModelSpec spec;
    ops::Linear embedding_rows;  // [vocab, M], row lookups; also the head when tied
    std::vector<DecoderLayer> layers;
    std::vector<float> final_norm;      // [M]
    std::unique_ptr<ops::Linear> head;  // [vocab, M]; null: tied

    StatePlan plan_states(const StateOptions& options) const;
    void init_states(const StatePlan& plan, std::byte* states) const;
    // Scratch that forward() takes, at most, for up to `batch` sequences of up to n_tokens new
    // tokens.
    size_t workspace_bytes(const StatePlan& plan, int64_t batch, int64_t n_tokens,
                           Step::Logits logits, int n_threads) const;
    int64_t rewind_limit(const StatePlan& plan, int64_t pos) const;
    // Tokens that at least one layer can still read exactly at `pos`.
    int64_t tokens_visible(const StatePlan& plan, int64_t pos) const;

    // logits: [B, vocab] for `last`, [B * T, vocab] for `all`, unused for `none`.
    // REQUIRES: every token < vocab_size; pos + T within plan.max_tokens.
    void forward(const Step& step, const StatePlan& plan, View<float, 2> logits, Exec& exec) const;
};

}  // namespace bifocal
