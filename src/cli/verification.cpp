#include "cli/verification.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/round_states.h"
#include "runtime/session.h"

namespace bifocal::cli {

std::span<const PathChoice> path_choices() {
    static constexpr PathChoice kChoices[] = {
        {"chunks64", "chunks of 64", PathKind::chunks, 64},
        {"chunks7", "chunks of 7", PathKind::chunks, 7},
        {"tokens", "token by token", PathKind::tokens, 1},
        {"batch", "batch of 3", PathKind::batch, 1},
        {"restored", "saved and restored", PathKind::restored, kReferenceChunk},
        {"bf16", "bf16 states", PathKind::bf16_states, 1},
    };
    static_assert(kNeighbours == 2, "the name of the batch says so");
    return kChoices;
}

EngineOptions Verification::with_room(EngineOptions options) {
    options.scores = true;
    options.chunk = kReferenceChunk;
    options.max_sessions = 1 + std::ssize(path_choices()) + kNeighbours;
    options.max_batch = 1 + kNeighbours;
    return options;
}

Verification::Verification(Engine& engine, std::vector<int32_t> tokens)
    : engine_(engine), tokens_(std::move(tokens)), vocab_(engine.vocab_size()) {
    rows_.resize(static_cast<size_t>(kReferenceChunk * vocab_));
}

Status Verification::open(std::span<const std::string> keys) {
    BIFOCAL_TRY(Session reference, engine_.new_session());
    reference_.push_back(std::move(reference));
    const auto wanted = [&](const PathChoice& choice) {
        return std::ranges::find(keys, choice.key) != keys.end();
    };
    const bool has_linear = linear_state_bytes(engine_.impl().plan) > 0;
    const bool rounds = has_linear && std::ranges::any_of(path_choices(), [&](const auto& choice) {
                            return choice.kind == PathKind::bf16_states && wanted(choice);
                        });
    for (const PathChoice& choice : path_choices()) {
        const bool is_chosen = choice.kind == PathKind::bf16_states ? rounds : wanted(choice);
        if (is_chosen || (choice.kind == PathKind::tokens && rounds)) {
            BIFOCAL_TRY_STATUS(add(choice));
        }
    }
    if (!paths_.empty()) return {};
    return Error{.what = "no path to walk",
                 .expected = "a path besides bf16 for a layout without linear states",
                 .kind = ErrorKind::usage};
}

Status Verification::add(const PathChoice& choice) {
    BIFOCAL_TRY(Session session, engine_.new_session());
    std::vector<Session> neighbours;
    for (int64_t i = 0; choice.kind == PathKind::batch && i < kNeighbours; ++i) {
        BIFOCAL_TRY(Session neighbour, engine_.new_session());
        // Other tokens at other positions.
        std::vector<int32_t> head;
        for (int64_t j = 0; j <= 3 * i; ++j) head.push_back(other_token());
        BIFOCAL_TRY_STATUS(neighbour.prefill(head));
        neighbours.push_back(std::move(neighbour));
    }
    paths_.push_back({&choice, std::move(session), std::move(neighbours), {}});
    return {};
}

Status Verification::run(const std::function<bool(int64_t done)>& progress) {
    progress_ = progress;
    const int64_t n = n_tokens();
    for (int64_t at = 0; at < n; at += kReferenceChunk) {
        const auto block =
            std::span<const int32_t>(tokens_).subspan(at, std::min(kReferenceChunk, n - at));
        BIFOCAL_TRY_STATUS(read_reference(block));
        for (Path& path : paths_) {
            BIFOCAL_TRY_STATUS(walk(path, block));
        }
    }
    return {};
}

Path* Verification::find(PathKind kind) {
    for (Path& path : paths_)
        if (path.choice->kind == kind) return &path;
    return nullptr;
}

int32_t Verification::other_token() {
    return static_cast<int32_t>(rng_.below(vocab_));
}

std::span<const float> Verification::reference_row(int64_t i) const {
    return {rows_.data() + i * vocab_, static_cast<size_t>(vocab_)};
}

Status Verification::count(int64_t n) {
    done_ += n;
    return progress_(done_) ? Status{} : Status(Error{.what = "stopped"});
}

Status Verification::read_reference(std::span<const int32_t> block) {
    BIFOCAL_TRY_STATUS(
        reference_[0].score(block, [&](int64_t begin, std::span<const float> logits) {
            std::ranges::copy(logits, rows_.begin() + begin * vocab_);
            return true;
        }));
    return count(std::ssize(block));
}

Status Verification::walk(Path& path, std::span<const int32_t> block) {
    switch (path.choice->kind) {
        case PathKind::chunks:
            return walk_chunks(path, block, path.choice->chunk);
        case PathKind::tokens:
            return walk_tokens(path, block);
        case PathKind::batch:
            return walk_batch(path, block);
        case PathKind::restored:
            BIFOCAL_TRY_STATUS(walk_chunks(path, block, path.choice->chunk));
            return save_and_restore(path);
        case PathKind::bf16_states:
            return {};  // walks with the tokens
    }
    return {};
}

Status Verification::walk_chunks(Path& path, std::span<const int32_t> block, int64_t chunk) {
    const int64_t n = std::ssize(block);
    for (int64_t at = 0; at < n; at += chunk) {
        const int64_t T = std::min(chunk, n - at);
        BIFOCAL_TRY_STATUS(path.session.score(
            block.subspan(at, T), [&](int64_t begin, std::span<const float> logits) {
                for (int64_t i = 0; i < std::ssize(logits) / vocab_; ++i)
                    path.drift.add(reference_row(at + begin + i),
                                   logits.subspan(i * vocab_, vocab_));
                return true;
            }));
        BIFOCAL_TRY_STATUS(count(T));
    }
    return {};
}

// Beside it the same with states rounded after every token, held against this path and not against
// the reference: the difference is the rounding's alone.
Status Verification::walk_tokens(Path& path, std::span<const int32_t> block) {
    Path* const rounded = find(PathKind::bf16_states);
    for (size_t i = 0; i < block.size(); ++i) {
        BIFOCAL_TRY_STATUS(path.session.decode(block[i]));
        path.drift.add(reference_row(static_cast<int64_t>(i)), path.session.logits());
        BIFOCAL_TRY_STATUS(count(1));
        if (!rounded) continue;
        BIFOCAL_TRY_STATUS(rounded->session.decode(block[i]));
        rounded->drift.add(path.session.logits(), rounded->session.logits());
        round_states_to_bf16(engine_.impl().plan, rounded->session.impl().state());
        BIFOCAL_TRY_STATUS(count(1));
    }
    return {};
}

// The sequence stands between its neighbours, whose tokens have nothing to do with it.
Status Verification::walk_batch(Path& path, std::span<const int32_t> block) {
    Session* const batch[] = {&path.neighbours[0], &path.session, &path.neighbours[1]};
    for (size_t i = 0; i < block.size(); ++i) {
        const int32_t tokens[] = {other_token(), block[i], other_token()};
        BIFOCAL_TRY_STATUS(engine_.step(batch, tokens));
        path.drift.add(reference_row(static_cast<int64_t>(i)), path.session.logits());
        BIFOCAL_TRY_STATUS(count(1));
    }
    return {};
}

// Through a file, into a session that knows nothing.
Status Verification::save_and_restore(Path& path) {
    const std::string file = (std::filesystem::temp_directory_path() /
                              fmt::format("bifocal-verify-{}.snapshot", ::getpid()))
                                 .string();
    BIFOCAL_TRY_STATUS(path.session.save(file));
    path.session.reset();
    const Status loaded = path.session.load(file);
    std::filesystem::remove(file);
    return loaded;
}

}  // namespace bifocal::cli
