// What an Engine and a Session are made of. The public face is bifocal/session.h; the step itself
// is Engine::Impl::forward in session.cpp.
#pragma once

#include <memory>
#include <vector>

#include "bifocal/session.h"
#include "core/thread_pool.h"
#include "model/decoder.h"
#include "runtime/checkpoints.h"
#include "runtime/state_pool.h"

namespace bifocal {

struct Engine::Impl {
    const Decoder& decoder;
    uint64_t identity;  // of the model's weights
    EngineOptions options;
    StatePlan plan;
    CheckpointPlan checkpoints;
    ThreadPool threads;
    Workspace workspace;
    StatePool pool;
    std::vector<float> batch_logits;       // [max_batch, vocab]
    std::vector<float> chunk_logits;       // [chunk, vocab], with options.scores
    std::vector<int64_t> batch_pos;        // [max_batch]
    std::vector<std::byte*> batch_states;  // [max_batch]
    std::vector<Session::Impl*> batch;     // [max_batch]
    std::vector<int32_t> replayed;         // [chunk], tokens that are read again

    Impl(const Decoder& decoder_, uint64_t identity_, const EngineOptions& options_,
         StatePlan plan_, const CheckpointPlan& checkpoints_, size_t workspace_bytes);

    // T new tokens of B sequences: the one place where the decoder is called.
    // tokens: [B, T]; logits: as Decoder::forward
    void forward(std::span<Session::Impl* const> sessions, View<const int32_t, 2> tokens,
                 Step::Logits wanted, View<float, 2> logits);
    // Tokens that a sequence may have; -1: any number.
    int64_t max_tokens() const;
    Status check_room(const Session::Impl& session, std::span<const int32_t> tokens) const;
};

struct Session::Impl {
    Engine::Impl& engine;
    int64_t slot;
    int64_t pos = 0;
    int64_t furthest = 0;  // the highest pos since the state was fresh; rewinding counts from it
    std::vector<float> logits;  // [vocab]
    bool has_logits = false;
    Checkpoints checkpoints;

    Impl(Engine::Impl& engine_, int64_t slot_);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    std::byte* state() { return engine.pool.data(slot); }
    const std::byte* state() const { return engine.pool.data(slot); }
    // Tokens that can be taken back by just moving the position.
    int64_t movable() const;
    // From the newest checkpoint until there, over the tokens in between.
    void replay_until(int64_t position);
};

DType kv_dtype(KvType type);

// Refuses states and checkpoints that take more than options.max_bytes_per_sequence.
Status check_budget(const StatePlan& plan, const CheckpointPlan& checkpoints,
                    const EngineOptions& options);

// Bytes that full attention, and a model's own linear layers beside it, would hold for `n_tokens`,
// by its own declaration.
int64_t full_attention_bytes(const ModelSpec& spec, KvType kv_type, int64_t n_tokens);

}  // namespace bifocal
