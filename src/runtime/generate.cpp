#include "runtime/generate.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/check.h"
#include "runtime/checksum.h"

namespace bifocal {

std::string_view stop_reason_name(StopReason reason) {
    switch (reason) {
        case StopReason::limit:
            return "limit";
        case StopReason::stop_token:
            return "stop";
        case StopReason::full:
            return "full";
        case StopReason::interrupted:
            return "interrupted";
    }
    return "";
}

Result<Generation> generate(Session& session, ops::Sampler& sampler,
                            tokenizer::StreamingDecoder& text, const GenerateOptions& options) {
    BIFOCAL_CHECK(!session.logits().empty(), "generating from a session without logits");
    const int64_t capacity = session.memory().capacity;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<float> scratch(session.logits().size());  // sampling overwrites what it reads
    Generation out;
    if (options.max_tokens > 0) out.tokens.reserve(static_cast<size_t>(options.max_tokens));
    const auto emit = [&](std::string_view piece) {
        if (options.on_text && !piece.empty()) options.on_text(piece);
    };
    while (options.max_tokens < 0 || std::ssize(out.tokens) < options.max_tokens) {
        if (options.should_stop && options.should_stop()) {
            out.reason = StopReason::interrupted;
            break;
        }
        if (capacity >= 0 && session.position() >= capacity) {
            out.reason = StopReason::full;
            break;
        }
        std::ranges::copy(session.logits(), scratch.begin());
        if (options.never_stops) {
            for (const int32_t stop : options.stop_tokens)
                scratch[static_cast<size_t>(stop)] = -std::numeric_limits<float>::infinity();
        }
        const int32_t token = sampler.sample(scratch);
        sampler.accept(token);
        out.tokens.push_back(token);
        const bool ends =
            std::ranges::find(options.stop_tokens, token) != options.stop_tokens.end();
        if (!ends) emit(text.push(token));
        const bool is_last = ends || std::ssize(out.tokens) == options.max_tokens;
        if (is_last) {
            out.logits_hash = checksum(std::span<const float>(session.logits()));
            if (ends) out.reason = StopReason::stop_token;
            if (!options.read_last) break;
        }
        BIFOCAL_TRY_STATUS(session.decode(token));
        ++out.n_steps;
        if (is_last) break;
    }
    if (out.logits_hash == 0) out.logits_hash = checksum(std::span<const float>(session.logits()));
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
}

}  // namespace bifocal
