// Runs a whole model over one text, for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "model/decoder.h"

namespace bifocal::testing {

// Logits at every position, [T * vocab], in chunks of at most `chunk` tokens, FP32 rings.
inline std::vector<float> all_logits(const Decoder& decoder, std::span<const int32_t> tokens,
                                     int64_t chunk, int n_threads = 1,
                                     DType kv_dtype = DType::f32) {
    const auto T = static_cast<int64_t>(tokens.size());
    const StatePlan plan = decoder.plan_states({T, kv_dtype});
    ThreadPool pool(n_threads);
    Workspace workspace(decoder.workspace_bytes(plan, 1, chunk, Step::Logits::all, pool.size()));
    Exec exec{pool, workspace};
    Buffer state(plan.bytes);
    decoder.init_states(plan, state.data());
    std::byte* const slots[] = {state.data()};

    const int64_t V = decoder.spec.vocab_size;
    std::vector<float> logits(static_cast<size_t>(T * V));
    for (int64_t begin = 0; begin < T; begin += chunk) {
        const int64_t n = std::min(chunk, T - begin);
        const int64_t pos[] = {begin};
        const View<const int32_t, 2> step(tokens.data() + begin, {1, n});
        decoder.forward({step, pos, slots, Step::Logits::all}, plan,
                        View<float, 2>(logits.data() + begin * V, {n, V}), exec);
    }
    return logits;
}

}  // namespace bifocal::testing
