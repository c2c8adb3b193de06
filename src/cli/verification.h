// Verification: one text through several paths that must agree, all of them together and block by
// block, so that memory does not grow with the text: logits are compared as they come and kept for
// one block only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bifocal/session.h"
#include "core/rng.h"
#include "runtime/drift.h"

namespace bifocal::cli {

inline constexpr int64_t kReferenceChunk = 256;  // tokens between two comparisons
inline constexpr int64_t kNeighbours = 2;        // other sequences of the batch

enum class PathKind : uint8_t { chunks, tokens, batch, restored, bf16_states };

struct PathChoice {
    const char* key;   // of --paths and JSON
    const char* name;  // of the table
    PathKind kind;
    int64_t chunk;  // of PathKind::chunks
};
std::span<const PathChoice> path_choices();

// One way through the text.
struct Path {
    const PathChoice* choice;
    Session session;
    std::vector<Session> neighbours;  // of a batch
    Drift drift;
};

class Verification {
  public:
    // What an engine needs so that all paths can be walked together.
    static EngineOptions with_room(EngineOptions options);
    static constexpr int64_t kMostAhead = 3 * kNeighbours;  // tokens that a neighbour is ahead by

    Verification(Engine& engine, std::vector<int32_t> tokens);

    // The reference and the paths named. The one with BF16 states is left out where a layout has
    // no linear states, and brings the tokens one by one along, which it is held against.
    Status open(std::span<const std::string> keys);
    // `progress`: tokens read, of all paths together; false stops.
    Status run(const std::function<bool(int64_t done)>& progress);

    int64_t n_tokens() const { return std::ssize(tokens_); }
    int64_t n_steps() const { return n_tokens() * (1 + std::ssize(paths_)); }
    const std::vector<Path>& paths() const { return paths_; }

  private:
    Status add(const PathChoice& choice);
    Path* find(PathKind kind);
    int32_t other_token();
    std::span<const float> reference_row(int64_t i) const;
    Status count(int64_t n);

    Status read_reference(std::span<const int32_t> block);
    Status walk(Path& path, std::span<const int32_t> block);
    Status walk_chunks(Path& path, std::span<const int32_t> block, int64_t chunk);
    Status walk_tokens(Path& path, std::span<const int32_t> block);
    Status walk_batch(Path& path, std::span<const int32_t> block);
    Status save_and_restore(Path& path);

    Engine& engine_;
    std::vector<int32_t> tokens_;
    int64_t vocab_;
    std::vector<Session> reference_;  // one
    std::vector<float> rows_;         // [kReferenceChunk, vocab] of the reference
    std::vector<Path> paths_;
    std::function<bool(int64_t)> progress_;
    int64_t done_ = 0;
    Rng rng_{1};
};

}  // namespace bifocal::cli
