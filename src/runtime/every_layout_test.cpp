// What every layout keeps: the same bytes at the first token and at the millionth, sequences of a
// batch that know nothing of one another, and steps that allocate nothing (memory_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/testing/layouts.h"
#include "runtime/testing/walk.h"

namespace bifocal {
namespace {

using namespace testing;

// Every layout by name, so that a failure says which.
template <class Law>
void for_each_layout(const Law& law) {
    for (const TinyLayout& layout : every_tiny_layout()) {
        SCOPED_TRACE(layout.name);
        law(tiny_model(layout.mixers));
        if (::testing::Test::HasFatalFailure()) return;
    }
}

// The position of a session is moved, which spares the tokens in between: no layout knows them by
// anything but its position and its state. memory_slow_test.cpp goes all the way with some.
TEST(EveryLayout, TakesTheSameBytesAtTheFirstTokenAndAtTheMillionth) {
    for_each_layout([](const TinyModel& model) {
        Engine engine = tiny_engine(model, {.capacity = 64, .chunk = 16});
        Session session = new_session(engine);
        const int64_t declared = engine.state_bytes();
        read_call(session, {1});
        const MemoryReport first = session.memory();
        const bool is_endless = first.capacity < 0;
        if (is_endless) session.impl().pos = session.impl().furthest = 999'990;
        Rng rng{1};
        read_calls(session, random_calls(is_endless ? 40 : 60, 16, rng));
        const MemoryReport late = session.memory();
        ASSERT_EQ(late.position, is_endless ? 1'000'030 : 61);
        for (const MemoryReport& report : {first, late}) {
            ASSERT_EQ(report.state_bytes, declared);
            ASSERT_EQ(report.allocated_bytes,
                      declared + static_cast<int64_t>(StatePool::kGuardBytes));
            ASSERT_EQ(report.workspace_bytes, first.workspace_bytes);
            ASSERT_EQ(report.logits_bytes, kTinyVocab * 4);
        }
        for (const float logit : session.logits()) ASSERT_TRUE(std::isfinite(logit));
    });
}

TEST(EveryLayout, DeclaresBytesThatNoLengthChanges) {
    for (const TinyLayout& layout : every_tiny_layout()) {
        const TinyModel model = tiny_model(layout.mixers);
        const auto at = [&](int64_t capacity) {
            return model.decoder.plan_states({capacity, DType::bf16});
        };
        if (at(1).max_tokens >= 0) continue;  // full attention, whose length is its size
        EXPECT_EQ(at(1).bytes, at(1'000'000).bytes) << layout.name;
    }
}

TEST(EveryLayout, SequencesOfABatchAreIndependent) {
    for_each_layout([](const TinyModel& model) {
        Engine engine = tiny_engine(model, {.max_sessions = 6, .max_batch = 3, .chunk = 16});
        Rng rng{6};
        std::vector<Session> together, alone;
        for (const int64_t n : {5, 0, 33}) {
            const Calls head = random_calls(n, 16, rng);
            together.push_back(new_session(engine));
            alone.push_back(new_session(engine));
            read_calls(together.back(), head);
            read_calls(alone.back(), head);
        }
        std::vector<Session*> batch;
        for (Session& session : together) batch.push_back(&session);
        for (const int64_t n : {1, 4, 16, 1, 1}) {
            const auto tokens = tiny_tokens(3 * n, rng.next());
            ASSERT_TRUE(engine.step(batch, tokens).ok());
            std::rotate(batch.begin(), batch.begin() + 1, batch.end());  // places do not matter
            for (int64_t i = 0; i < 3; ++i) {
                Session& own = *batch[(i + 2) % 3];  // read the tokens of place i
                const auto which = static_cast<size_t>(&own - together.data());
                const auto hash =
                    read_call(alone[which], {tokens.begin() + i * n, tokens.begin() + (i + 1) * n});
                ASSERT_EQ(checksum(std::span<const float>(own.logits())), hash) << which;
            }
        }
        for (size_t i = 0; i < 3; ++i)
            ASSERT_TRUE(
                std::ranges::equal(std::span(together[i].impl().state(), engine.impl().plan.bytes),
                                   std::span(alone[i].impl().state(), engine.impl().plan.bytes)));
    });
}

}  // namespace
}  // namespace bifocal
