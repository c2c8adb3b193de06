// Any bytes as a snapshot: as they are, and again with the checksums put right, so that what lies
// behind them is reached. What is accepted must be able to go on.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/checksum.h"
#include "runtime/session.h"
#include "runtime/snapshot.h"
#include "runtime/testing/tiny_model.h"

using namespace bifocal;

namespace {

constexpr size_t kHeaderBytes = 128, kSumBytes = 8;

void put_sum(std::span<std::byte> bytes, size_t at) {
    const uint64_t sum = checksum(std::span<const std::byte>(bytes).first(at));
    std::memcpy(bytes.data() + at, &sum, sizeof sum);
}

struct World {
    testing::TinyModel model = testing::tiny_model("sliding_window:window=6,sink_tokens=2");
    Engine engine = Engine::make(model.decoder, model.identity, {.n_threads = 1}).value();
    Session session = engine.new_session().value();
};

void load(World& world, std::span<const std::byte> bytes) {
    auto around = decode_snapshot(world.session, bytes, "fuzz");
    if (!around.ok()) {
        const std::string message = around.error().message();
        if (message.empty() || message.find('\n') != std::string::npos) std::abort();
        return;
    }
    std::vector<float> logits(world.session.logits().begin(), world.session.logits().end());
    if (around->sampler && !logits.empty()) {
        const int32_t token = around->sampler->sample(logits);
        around->sampler->accept(token);
    }
    static_cast<void>(world.session.memory());
    static_cast<void>(encode_snapshot(world.session, *around));
    if (!world.session.decode(1).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static World world;
    load(world, std::as_bytes(std::span(data, size)));
    if (size < kHeaderBytes + kSumBytes) return 0;
    std::vector<std::byte> bytes(size);
    std::memcpy(bytes.data(), data, size);
    put_sum(std::span(bytes).first(kHeaderBytes), kHeaderBytes - kSumBytes);
    put_sum(bytes, size - kSumBytes);
    load(world, bytes);
    return 0;
}
