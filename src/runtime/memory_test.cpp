// Fixed memory: decoding allocates nothing, states do not grow, a byte too much is seen.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "bifocal/model.h"
#include "runtime/generate.h"
#include "runtime/session.h"
#include "runtime/testing/layouts.h"
#include "runtime/testing/memory_use.h"
#include "runtime/testing/tiny_model.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Every allocation of this test program is counted.
void* operator new(size_t bytes) {
    ++allocations;
    if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
    throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
    ++allocations;
    const auto a = static_cast<size_t>(alignment);
    if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
    throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, size_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
    std::free(p);
}

namespace bifocal {
namespace {

using testing::tiny_model;
using testing::tiny_tokens;

TEST(Memory, DecodeAllocatesNothing) {
    for (const auto& layout : testing::every_tiny_layout()) {
        const auto model = tiny_model(layout.mixers);
        for (const int threads : {1, 2}) {
            auto engine = Engine::make(model.decoder, 1, {.n_threads = threads});
            ASSERT_TRUE(engine.ok());
            auto session = engine->new_session();
            ASSERT_TRUE(session.ok());
            const auto tokens = tiny_tokens(200);
            ASSERT_TRUE(session->prefill(std::span(tokens).first(10)).ok());
            const int64_t before = allocations;
            for (int i = 10; i < 200; ++i) ASSERT_TRUE(session->decode(tokens[i]).ok());
            EXPECT_EQ(allocations - before, 0) << layout.name << ", " << threads << " threads";
        }
    }
}

TEST(Memory, DecodeOfExpertsAndLinearLayersAllocatesNothing) {
    for (const std::string name : {"gpt_oss_mxfp4", "minimax"}) {
        const auto model =
            Model::load(std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/models/" + name);
        ASSERT_TRUE(model.ok()) << model.error().message();
        auto engine = Engine::make(*model, {.n_threads = 2});
        ASSERT_TRUE(engine.ok());
        auto session = engine->new_session();
        ASSERT_TRUE(session.ok());
        const auto tokens = tiny_tokens(60);
        ASSERT_TRUE(session->prefill(std::span(tokens).first(10)).ok());
        const int64_t before = allocations;
        for (int i = 10; i < 60; ++i) ASSERT_TRUE(session->decode(tokens[i]).ok());
        EXPECT_EQ(allocations - before, 0) << name;
    }
}

TEST(Memory, CheckpointsAndGoingBackAllocateNothing) {
    const auto model = tiny_model("bifocal:window=9,far=mlstm");
    EngineOptions options{.max_sessions = 2, .max_batch = 2, .chunk = 8, .n_threads = 1};
    options.checkpoint_bytes = 1 << 20;
    options.checkpoint_every = 10;
    auto engine = Engine::make(model.decoder, 1, options);
    ASSERT_TRUE(engine.ok());
    auto one = engine->new_session(), two = engine->new_session();
    ASSERT_TRUE(one.ok() && two.ok());
    const auto tokens = tiny_tokens(160);
    Session* const both[] = {&*one, &*two};
    const int64_t before = allocations;
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(one->prefill(std::span(tokens).first(33)).ok());
        for (int i = 0; i < 30; ++i) ASSERT_TRUE(one->decode(tokens[i]).ok());
        ASSERT_TRUE(engine->step(both, std::span(tokens).first(16)).ok());
        ASSERT_TRUE(one->rewind(25).ok());
    }
    EXPECT_EQ(allocations - before, 0);
}

TEST(Memory, TheCounterCounts) {
    const int64_t before = allocations;
    const auto one = std::make_unique<int>(1);
    EXPECT_EQ(allocations - before, 1) << *one;
}

TEST(Memory, StatesAndTheProcessDoNotGrow) {
    const testing::Growth growth =
        testing::decode_many("sliding_window:window=12,sink_tokens=4", 20'000);
    EXPECT_EQ(growth.state_bytes_begin, growth.state_bytes_end);
    EXPECT_LT(growth.resident_bytes, 1 << 20);
}

TEST(MemoryDeathTest, AByteBehindTheSlotAborts) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto model = tiny_model("sliding_window:window=20");
    auto engine = Engine::make(model.decoder, 1, {.n_threads = 1});
    ASSERT_TRUE(engine.ok());
    auto session = engine->new_session();
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->decode(1).ok());
    session->impl().state()[engine->state_bytes()] = std::byte{1};
    EXPECT_DEATH((void)session->decode(1), "byte 0 behind the .* declared ones");
}

}  // namespace
}  // namespace bifocal
