#include "runtime/testing/memory_use.h"

#include <unistd.h>

#include <cstdio>

#include "bifocal/session.h"
#include "ops/sampling.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal::testing {

int64_t resident_bytes() {
    int64_t total = 0, resident = 0;
    if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
        std::fclose(file);
    }
    return resident * ::sysconf(_SC_PAGESIZE);
}

Growth decode_many(const std::string& attention, int64_t n_tokens) {
    const TinyModel model = tiny_model(attention);
    auto engine = Engine::make(model.decoder, model.identity, {.n_threads = 1});
    BIFOCAL_CHECK(engine.ok(), "{}", engine.error().message());
    auto session = engine->new_session();
    BIFOCAL_CHECK(session.ok(), "{}", session.error().message());
    Growth growth;
    int32_t token = 1;
    const auto decode = [&](int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            const Status status = session->decode(token);
            BIFOCAL_CHECK(status.ok(), "{}", status.error().message());
            token = static_cast<int32_t>((ops::argmax(session->logits()) + i) % kTinyVocab);
        }
    };
    decode(1);
    growth.state_bytes_begin = session->memory().state_bytes;
    const int64_t before = resident_bytes();
    decode(n_tokens - 1);
    growth.resident_bytes = resident_bytes() - before;
    growth.state_bytes_end = session->memory().state_bytes;
    growth.position = session->position();
    return growth;
}

}  // namespace bifocal::testing
