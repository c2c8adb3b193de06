// Engine and Session: one sequence of tokens going through a model, in a number of bytes that is
// known before the first token.
//
//   auto engine = Engine::make(model, {.capacity = 4096});
//   auto session = engine->new_session();
//   session->prefill(prompt);                     // a prompt, in chunks
//   session->decode(token);                       // one token
//   session->logits();                            // of the last token, [vocab]
//
// An Engine and its sessions belong to one thread. The model must outlive the engine, the engine
// its sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "bifocal/error.h"
#include "bifocal/model.h"

namespace bifocal {

enum class KvType : uint8_t { bf16, f32 };

struct EngineOptions {
    KvType kv_type = KvType::bf16;
    int64_t capacity = 0;     // tokens that full attention can hold; 0: the model's context length
    int64_t max_tokens = -1;  // most tokens of any sequence, whatever the layout; -1: any number
    // Ceiling on one sequence, its state and checkpoints; 0: none. What needs more is refused.
    int64_t max_bytes_per_sequence = 0;
    // Room for copies of a session's state and for the tokens since the oldest of them, so that
    // rewind() reaches further than the layers themselves allow; 0: none.
    int64_t checkpoint_bytes = 0;
    int64_t checkpoint_every = 256;  // tokens, at least, from one copy to the next
    int64_t max_sessions = 1;        // state slots
    int64_t max_batch = 1;           // sequences in one step
    int64_t chunk = 256;             // tokens of a prompt that go through the layers together
    bool scores = false;             // score() may be called: needs logits for a whole chunk
    int n_threads = 0;               // 0: one per core
};

// What a sequence costs, in bytes.
struct MemoryReport {
    int64_t position = 0;              // tokens seen
    int64_t state_bytes = 0;           // of this sequence now, and at any later token
    int64_t checkpoint_bytes = 0;      // for going back: likewise
    int64_t allocated_bytes = 0;       // what both really took, and a guard line behind the states
    int64_t full_attention_bytes = 0;  // what full attention would hold after these tokens
    int64_t tokens_visible = 0;        // that some layer can still read exactly
    int64_t tokens_left = 0;           // that left every window
    int64_t rewind_limit = 0;          // tokens that rewind() can take back now
    int64_t capacity = -1;             // most tokens it may have; -1: any number
    int64_t logits_bytes = 0;          // of this sequence's last logits
    int64_t workspace_bytes = 0;       // scratch, one for all sequences
};

// Called after each chunk of a prompt with the tokens done; false stops.
using StepCallback = std::function<bool(int64_t done)>;
// Logits of consecutive tokens: row i is for the token at `begin + i`. [n, vocab], dense
using ScoreCallback = std::function<bool(int64_t begin, std::span<const float> logits)>;

class Session;

class Engine {
  public:
    static Result<Engine> make(const Model& model, const EngineOptions& options);
    // A decoder without a file. `identity` names its weights in snapshots.
    static Result<Engine> make(const Decoder& decoder, uint64_t identity,
                               const EngineOptions& options);
    Engine(Engine&&) noexcept;
    Engine& operator=(Engine&&) noexcept;
    ~Engine();

    // Takes a slot; an error when all are taken.
    Result<Session> new_session();
    // One step of n tokens for each of B different sessions; every session's logits() are then of
    // its last token. tokens: [B, n], dense. A session that has no room makes the whole step fail
    // before it starts.
    Status step(std::span<Session* const> sessions, std::span<const int32_t> tokens);

    const EngineOptions& options() const;
    int64_t vocab_size() const;
    int64_t state_bytes() const;         // of every sequence, before its first token
    int64_t bytes_per_sequence() const;  // and with its checkpoints

    struct Impl;
    Impl& impl() { return *impl_; }
    const Impl& impl() const { return *impl_; }

  private:
    explicit Engine(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

class Session {
  public:
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;
    ~Session();  // gives the slot back

    // Reads tokens after those already seen. Tokens that would not fit are an error before the
    // first of them is read. When `progress` returns false the session stops after that chunk with
    // an Error; what was read stays.
    Status prefill(std::span<const int32_t> tokens, const StepCallback& progress = {});
    // One token; allocates nothing.
    Status decode(int32_t token);
    // As prefill, with the logits of every token. REQUIRES: options().scores
    Status score(std::span<const int32_t> tokens, const ScoreCallback& scores);

    // Of the last token: [vocab], the caller's to change; empty before the first token and after
    // rewind.
    std::span<float> logits();
    std::span<const float> logits() const;
    int64_t position() const;

    // How many tokens rewind can take back now. With options().checkpoint_bytes at least
    // options().checkpoint_every, as soon as so many were read since the session began, was loaded
    // or went back.
    int64_t rewind_limit() const;
    // Takes back the last n tokens, as if they had never been read; more than rewind_limit() is an
    // error and changes nothing. Where the layers cannot go back by themselves, the tokens since a
    // checkpoint are read again.
    Status rewind(int64_t n);
    // A second session with the same memory, in a slot of its own.
    Result<Session> fork() const;
    // Back to no tokens.
    void reset();

    MemoryReport memory() const;

    // Everything the sequence remembers as one file, and back: docs/snapshot.md. A file that does
    // not fit this model and layout is an error and changes nothing.
    Status save(const std::string& path) const;
    Status load(const std::string& path);

    struct Impl;
    Impl& impl() { return *impl_; }
    const Impl& impl() const { return *impl_; }

  private:
    friend class Engine;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace bifocal
