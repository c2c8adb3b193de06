#include "runtime/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace bifocal {
namespace {

// Going back by one token right after a copy was made needs the one before.
constexpr size_t kLeastStates = 2;
// Tokens that each copy brings room for, as a multiple of the tokens between two fresh ones: how
// sparse older copies may get before their tokens are forgotten. 4 bytes a token are little beside
// a state.
constexpr int64_t kStretch = 16;

}  // namespace

size_t CheckpointPlan::bytes() const {
    return n_states * (state_bytes + sizeof(Checkpoint)) + n_tokens * sizeof(int32_t);
}

Result<CheckpointPlan> plan_checkpoints(const EngineOptions& options, size_t state_bytes) {
    if (options.checkpoint_bytes == 0) return CheckpointPlan{};
    CheckpointPlan plan{.every_tokens = options.checkpoint_every, .state_bytes = state_bytes};
    // Two fresh copies are less than twice this apart.
    const int64_t apart = std::max(options.checkpoint_every, options.chunk);
    const auto sized = [&](size_t n_states) {
        plan.n_states = n_states;
        plan.n_tokens = n_states * static_cast<size_t>(kStretch * apart);
        return plan.bytes();
    };
    const auto budget = static_cast<size_t>(options.checkpoint_bytes);
    const size_t least = sized(kLeastStates);
    if (least > budget)
        return Error{.what = "the budget for checkpoints is too small",
                     .expected = fmt::format("at least {} bytes, two states of {} and their tokens",
                                             least, state_bytes),
                     .got = fmt::format("{}", budget),
                     .hint = fmt::format("--checkpoint-mem {} is the least that works", least)};
    sized(budget / sized(1));
    return plan;
}

Checkpoints::Checkpoints(const CheckpointPlan& plan)
    : plan_(plan),
      kept_(plan.n_states),
      states_(plan.n_states * plan.state_bytes),
      ids_(plan.n_tokens) {
    for (size_t i = 0; i < kept_.size(); ++i) kept_[i].slot = i;
}

void Checkpoints::restart(int64_t pos, int64_t furthest, const std::byte* state) {
    n_kept_ = 0;
    first_token_ = pos;
    if (plan_.n_states > 0) keep(pos, furthest, state);
}

void Checkpoints::add(std::span<const int32_t> tokens, int64_t pos, int64_t furthest,
                      const std::byte* state) {
    if (plan_.n_states == 0) return;
    const int64_t begin = pos - std::ssize(tokens);
    for (int64_t i = 0; i < std::ssize(tokens); ++i) ids_[id_index(begin + i)] = tokens[i];
    ids_[id_index(pos - 1)] = ~tokens.back();
    first_token_ = std::max(first_token_, pos - std::ssize(ids_));
    while (kept_[0].pos < first_token_) drop(0);
    if (pos - newest().pos >= plan_.every_tokens) keep(pos, furthest, state);
}

void Checkpoints::keep(int64_t pos, int64_t furthest, const std::byte* state) {
    if (n_kept_ == kept_.size()) drop(least_needed(pos));
    Checkpoint& next = kept_[n_kept_++];
    next.pos = pos;
    next.furthest = furthest;
    std::memcpy(data(next.slot), state, plan_.state_bytes);
}

void Checkpoints::drop(size_t i) {
    const auto at = kept_.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(at, at + 1, kept_.begin() + static_cast<std::ptrdiff_t>(n_kept_));
    --n_kept_;
}

// Which copy makes room for one at `pos`. The newest stays: with the one to come it covers the last
// `every_tokens` tokens at all times. The oldest stays too where there is a third: it says how far
// back one can go, and leaves when its tokens do. Of those between, the one whose loss makes going
// back dearest the least: a position just before its follower is then reached from its forerunner,
// and the tokens to read again are counted against those that are taken back. So copies get
// sparser with their age, by a constant factor.
size_t Checkpoints::least_needed(int64_t pos) const {
    size_t best = 0;
    double least = 0;
    for (size_t i = 1; i + 1 < n_kept_; ++i) {
        const double factor = static_cast<double>(pos - kept_[i - 1].pos) /
                              static_cast<double>(pos - kept_[i + 1].pos);
        if (best != 0 && factor >= least) continue;
        best = i;
        least = factor;
    }
    return best;
}

void Checkpoints::take_back(int64_t pos, int64_t furthest, const std::byte* state) {
    while (n_kept_ > 0 && newest().pos > pos) --n_kept_;
    if (n_kept_ == 0) restart(pos, furthest, state);
}

void Checkpoints::copy_from(const Checkpoints& other) {
    n_kept_ = other.n_kept_;
    first_token_ = other.first_token_;
    std::ranges::copy(other.kept_, kept_.begin());
    std::ranges::copy(other.ids_, ids_.begin());
    for (size_t i = 0; i < n_kept_; ++i)
        std::memcpy(data(kept_[i].slot), other.state(kept_[i]), plan_.state_bytes);
}

const Checkpoint& Checkpoints::newest_until(int64_t pos) const {
    size_t i = n_kept_;
    while (i > 0 && kept_[i - 1].pos > pos) --i;
    BIFOCAL_CHECK(i > 0, "no checkpoint at or before {}", pos);
    return kept_[i - 1];
}

const std::byte* Checkpoints::state(const Checkpoint& checkpoint) const {
    return states_.data() + checkpoint.slot * plan_.state_bytes;
}

int64_t Checkpoints::read_call(int64_t begin, int64_t end, std::span<int32_t> tokens) const {
    const int64_t most = std::min(end - begin, std::ssize(tokens));
    int64_t n = 0;
    for (bool is_last = false; n < most && !is_last; ++n) {
        const int32_t id = ids_[id_index(begin + n)];
        is_last = id < 0;
        tokens[n] = is_last ? ~id : id;
    }
    return n;
}

size_t Checkpoints::bytes() const {
    return states_.size() + kept_.capacity() * sizeof(Checkpoint) +
           ids_.capacity() * sizeof(int32_t);
}

}  // namespace bifocal
