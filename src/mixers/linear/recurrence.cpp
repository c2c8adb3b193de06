// Which form of the recurrence runs.
#include "mixers/linear/recurrence.h"

#include <fmt/format.h>

#include "core/cpu_features.h"

namespace bifocal::linear {

bool prefers_chunks(const Recurrence& rec, int64_t n_tokens) {
    // By channel, exponents cost more than the products save unless a state is large; measured in
    // bench/NOTES.md.
    const bool is_large = rec.key_dim * rec.value_dim >= 128 * 128;
    return n_tokens >= kWorthAChunk && (!rec.decays_by_channel || is_large);
}

std::string describe(const Recurrence& rec) {
    return fmt::format(
        "recurrence: {} f32, {} ({})", isa_name(active_isa()),
        prefers_chunks(rec, kChunk)
            ? fmt::format("chunks of {}, single tokens below {}", chunk_length(rec), kWorthAChunk)
            : std::string("token by token"),
        isa_reason());
}

void run(const Recurrence& rec, const Tokens<float>& tokens, const State<float>& state,
         std::span<float> scratch) {
    (prefers_chunks(rec, tokens.n) ? run_chunks : run_recurrent)(rec, tokens, state, scratch);
}

}  // namespace bifocal::linear
