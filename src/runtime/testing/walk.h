// A sequence as calls: which tokens were read together. For tests that hold one history against
// another with the same cuts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "runtime/checksum.h"
#include "runtime/session.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal::testing {

using Calls = std::vector<std::vector<int32_t>>;

// `n` tokens in calls of 1 to `most`.
inline Calls random_calls(int64_t n, int64_t most, Rng& rng) {
    Calls calls;
    while (n > 0) {
        auto& call = calls.emplace_back(std::min(n, 1 + rng.below(most)));
        for (int32_t& token : call) token = static_cast<int32_t>(rng.below(kTinyVocab));
        n -= std::ssize(call);
    }
    return calls;
}

// One call; the hash of the logits after it.
inline uint64_t read_call(Session& session, const std::vector<int32_t>& call) {
    const Status status = session.prefill(call);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return checksum(std::span<const float>(session.logits()));
}

inline std::vector<uint64_t> read_calls(Session& session, const Calls& calls) {
    std::vector<uint64_t> hashes;
    for (const auto& call : calls) hashes.push_back(read_call(session, call));
    return hashes;
}

// The calls up to token `n`, the last one cut there.
inline Calls first_tokens(const Calls& calls, int64_t n) {
    Calls out;
    for (const auto& call : calls) {
        if (n <= 0) break;
        out.push_back(call);
        if (std::ssize(call) > n) out.back().resize(static_cast<size_t>(n));
        n -= std::ssize(call);
    }
    return out;
}

inline Engine tiny_engine(const TinyModel& model, EngineOptions options) {
    options.n_threads = 1;
    if (options.capacity == 0) options.capacity = 512;
    Result<Engine> engine = Engine::make(model.decoder, model.identity, options);
    BIFOCAL_CHECK(engine.ok(), "{}", engine.error().message());
    return std::move(engine).value();
}

inline Session new_session(Engine& engine) {
    Result<Session> session = engine.new_session();
    BIFOCAL_CHECK(session.ok(), "{}", session.error().message());
    return std::move(session).value();
}

}  // namespace bifocal::testing
