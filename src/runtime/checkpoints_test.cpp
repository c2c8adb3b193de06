// Going back by checkpoints: as if the tokens had never been read, in every layout; which copies
// stay; what is refused; and that the bytes are those declared.
#include "runtime/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/snapshot.h"
#include "runtime/testing/layouts.h"
#include "runtime/testing/walk.h"

namespace bifocal {
namespace {

using namespace testing;
using ::testing::HasSubstr;

const std::string kState = "linear:rule=mlstm";
// Calls long enough that linear states go through them as chunks.
constexpr int64_t kEvery = 16, kChunk = 29;

// Room for `n` copies and not for another.
EngineOptions with_checkpoints(const TinyModel& model, int64_t n) {
    EngineOptions options{.max_sessions = 3, .max_batch = 3, .chunk = kChunk};
    options.checkpoint_every = kEvery;
    options.checkpoint_bytes = int64_t{1} << 30;
    const auto states = model.decoder.plan_states({512, DType::bf16});
    const auto plan = plan_checkpoints(options, states.bytes);
    BIFOCAL_CHECK(plan.ok(), "{}", plan.error().message());
    const auto each = static_cast<int64_t>(plan->bytes() / plan->n_states);
    options.checkpoint_bytes = (n + 1) * each - 1;
    return options;
}

bool is_endless(const TinyModel& model) {
    return model.decoder.plan_states({512, DType::bf16}).max_tokens < 0;
}

TEST(Checkpoints, GoingBackEqualsNeverHavingGone) {
    int64_t n_replayed = 0, n_layouts = 0;
    for (const TinyLayout& layout : every_tiny_layout()) {
        SCOPED_TRACE(layout.name);
        const TinyModel model = tiny_model(layout.mixers);
        if (!is_endless(model)) continue;  // full attention goes back by itself
        const int64_t n_copies = 2 + n_layouts++ % 3;
        Engine engine = tiny_engine(model, with_checkpoints(model, n_copies));
        Engine plain = tiny_engine(model, {.max_sessions = 2, .chunk = 512});
        Session session = new_session(engine);
        Rng rng{11};
        Calls history;
        int64_t begin = 0;  // nothing before it can be reached
        for (int round = 0; round < 12; ++round) {
            for (const auto& call : random_calls(1 + rng.below(50), kChunk, rng)) {
                read_call(session, call);
                history.push_back(call);
                ASSERT_GE(session.rewind_limit(), std::min(session.position() - begin, kEvery));
            }
            const int64_t limit = session.rewind_limit(), back = rng.below(limit + 1);
            const int64_t left = session.position() - back;
            n_replayed += back > session.impl().movable();
            ASSERT_TRUE(session.rewind(back).ok()) << back << " of " << limit;
            ASSERT_EQ(session.position(), left);
            if (back > 0) {
                ASSERT_TRUE(session.logits().empty());
            }
            history = first_tokens(history, left);
            begin = left - session.rewind_limit();

            // With the same cuts the bits are the same, whatever the mixer.
            const Calls next = random_calls(9, kChunk, rng);
            Session straight = new_session(plain);
            read_calls(straight, history);
            ASSERT_EQ(read_calls(session, next), read_calls(straight, next)) << round;
            history.insert(history.end(), next.begin(), next.end());
            if (!layout.same_bits_for_any_chunking) continue;
            std::vector<int32_t> all;
            for (const auto& call : history) all.insert(all.end(), call.begin(), call.end());
            Session whole = new_session(plain);
            ASSERT_EQ(read_call(whole, all), checksum(std::span<const float>(session.logits())));
        }
    }
    EXPECT_GT(n_layouts, 20);
    EXPECT_GT(n_replayed, 100);
}

TEST(Checkpoints, TheStateItselfIsTheSameByte) {
    const TinyModel model = tiny_model(kState);
    Engine engine = tiny_engine(model, with_checkpoints(model, 3));
    Engine plain = tiny_engine(model, {.chunk = kChunk});
    Session session = new_session(engine), straight = new_session(plain);
    Rng rng{5};
    const Calls calls = random_calls(90, kChunk, rng);
    read_calls(session, calls);
    const int64_t left = session.position() - session.rewind_limit() + 3;  // inside a call
    ASSERT_TRUE(session.rewind(90 - left).ok());
    read_calls(straight, first_tokens(calls, left));
    const auto bytes = [](const Session& s) {
        return std::span(s.impl().state(), s.impl().engine.plan.bytes);
    };
    EXPECT_TRUE(std::ranges::equal(bytes(session), bytes(straight)));
}

// Copies by themselves, of a state that is its position.
struct Positions {
    explicit Positions(const CheckpointPlan& plan) : checkpoints(plan) {
        checkpoints.restart(0, 0, bytes());
    }
    const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(&pos); }
    void read(int64_t n) {
        const std::vector<int32_t> tokens(static_cast<size_t>(n), 1);
        pos += n;
        checkpoints.add(tokens, pos, pos, bytes());
    }

    int64_t pos = 0;
    Checkpoints checkpoints;
};

CheckpointPlan plan_of(size_t n_states, int64_t every, size_t n_tokens) {
    return {every, sizeof(int64_t), n_states, n_tokens};
}

TEST(Checkpoints, TheNewestTokensAreAlwaysCovered) {
    for (const size_t n_states : {2, 3, 4, 9}) {
        for (const int64_t call : {1, 3, 10, 25}) {
            Positions walk(plan_of(n_states, 10, n_states * 16 * 25));
            while (walk.pos < 20'000) {
                walk.read(call);
                ASSERT_LE(walk.checkpoints.first_position(), std::max<int64_t>(0, walk.pos - 10));
                ASSERT_LE(walk.checkpoints.n_kept(), static_cast<int64_t>(n_states));
            }
        }
    }
}

TEST(Checkpoints, OlderOnesGetSparserWithTheirAge) {
    Positions walk(plan_of(8, 10, 8 * 160));
    while (walk.pos < 20'000) {
        walk.read(1);
        if (walk.pos < 2000) continue;
        EXPECT_GE(walk.pos - walk.checkpoints.first_position(), 8 * 160 / 4) << walk.pos;
        // Tokens to read again, against those taken back: never many times as many.
        for (int64_t to = walk.checkpoints.first_position(); to < walk.pos; ++to) {
            const Checkpoint& from = walk.checkpoints.newest_until(to);
            ASSERT_LE(to - from.pos, 4 * (walk.pos - to) + 10) << to << " of " << walk.pos;
            int64_t copied;
            std::memcpy(&copied, walk.checkpoints.state(from), sizeof copied);
            ASSERT_EQ(copied, from.pos);
        }
        walk.read(1 + walk.pos % 7);
    }
}

TEST(Checkpoints, TokensComeBackAsTheyWereCut) {
    Checkpoints checkpoints(plan_of(2, 100, 40));
    const int64_t state = 0;
    const auto* const bytes = reinterpret_cast<const std::byte*>(&state);
    checkpoints.restart(0, 0, bytes);
    checkpoints.add(std::vector<int32_t>{0, 7, 0}, 3, 3, bytes);
    checkpoints.add(std::vector<int32_t>{5}, 4, 4, bytes);
    std::vector<int32_t> tokens(3);
    EXPECT_EQ(checkpoints.read_call(0, 4, tokens), 3);
    EXPECT_EQ(tokens, (std::vector<int32_t>{0, 7, 0}));
    EXPECT_EQ(checkpoints.read_call(1, 2, tokens), 1);
    EXPECT_EQ(tokens[0], 7);
    EXPECT_EQ(checkpoints.read_call(3, 4, tokens), 1);
    EXPECT_EQ(tokens[0], 5);
}

TEST(Checkpoints, WhatCannotBeReachedIsRefused) {
    const TinyModel model = tiny_model(kState);
    Rng rng{3};
    const Calls calls = random_calls(100, kChunk, rng);
    {
        Engine none = tiny_engine(model, {.chunk = kChunk});
        Session session = new_session(none);
        read_calls(session, calls);
        EXPECT_EQ(session.rewind_limit(), 0);
        const Status status = session.rewind(1);
        ASSERT_FALSE(status.ok());
        EXPECT_THAT(status.error().message(), HasSubstr("cannot take back 1 of 100 tokens: "
                                                        "expected at least 100 tokens to stay, "
                                                        "got 99"));
        EXPECT_EQ(session.memory().checkpoint_bytes, 0);
        EXPECT_FALSE(session.logits().empty());
    }
    Engine engine = tiny_engine(model, with_checkpoints(model, 2));
    Session session = new_session(engine);
    read_calls(session, calls);
    const int64_t first = 100 - session.rewind_limit();
    EXPECT_GT(first, 0);
    const Status status = session.rewind(100 - first + 1);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message(),
                HasSubstr(fmt::format("at least {} tokens to stay, got {}", first, first - 1)));
    EXPECT_EQ(session.position(), 100);
    EXPECT_TRUE(session.rewind(100 - first).ok());
    EXPECT_EQ(session.rewind_limit(), 0);
}

TEST(Checkpoints, TheBytesAreThoseDeclared) {
    for (const TinyLayout& layout : every_tiny_layout()) {
        SCOPED_TRACE(layout.name);
        const TinyModel model = tiny_model(layout.mixers);
        if (!is_endless(model)) continue;
        const EngineOptions options = with_checkpoints(model, 3);
        Engine engine = tiny_engine(model, options);
        EXPECT_EQ(engine.impl().checkpoints.n_states, 3u);
        const auto declared = static_cast<int64_t>(engine.impl().checkpoints.bytes());
        EXPECT_LE(declared, options.checkpoint_bytes);
        EXPECT_EQ(engine.bytes_per_sequence(), engine.state_bytes() + declared);
        Session session = new_session(engine);
        Rng rng{2};
        for (int round = 0; round < 4; ++round) {
            const MemoryReport report = session.memory();
            EXPECT_EQ(report.checkpoint_bytes, declared);
            EXPECT_EQ(static_cast<int64_t>(session.impl().checkpoints.bytes()), declared);
            EXPECT_EQ(report.allocated_bytes,
                      engine.bytes_per_sequence() + static_cast<int64_t>(StatePool::kGuardBytes));
            EXPECT_EQ(report.rewind_limit, session.rewind_limit());
            read_calls(session, random_calls(40, kChunk, rng));
        }
    }
}

TEST(Checkpoints, CountInTheCeilingOfASequence) {
    const TinyModel model = tiny_model(kState);
    EngineOptions options = with_checkpoints(model, 3);
    options.capacity = 512;
    const int64_t bytes = tiny_engine(model, options).bytes_per_sequence();
    options.max_bytes_per_sequence = bytes;
    EXPECT_TRUE(Engine::make(model.decoder, 1, options).ok());
    options.max_bytes_per_sequence = bytes - 1;
    const auto refused = Engine::make(model.decoder, 1, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr("of them for checkpoints"));
}

TEST(Checkpoints, ABudgetForFewerThanTwoIsRefused) {
    const TinyModel model = tiny_model(kState);
    EngineOptions options{.capacity = 512, .chunk = kChunk};
    options.checkpoint_every = kEvery;
    options.checkpoint_bytes = 1;
    const auto refused = Engine::make(model.decoder, 1, options);
    ASSERT_FALSE(refused.ok());
    const std::string message = refused.error().message();
    EXPECT_THAT(message, HasSubstr("the budget for checkpoints is too small"));
    const size_t at = message.find("at least ");
    ASSERT_NE(at, std::string::npos);
    options.checkpoint_bytes = std::atoll(message.c_str() + at + 9);
    EXPECT_TRUE(Engine::make(model.decoder, 1, options).ok());
    --options.checkpoint_bytes;
    EXPECT_FALSE(Engine::make(model.decoder, 1, options).ok());
}

TEST(Checkpoints, LayoutsThatGoBackByThemselvesTakeNone) {
    const TinyModel model = tiny_model("full");
    const auto refused =
        Engine::make(model.decoder, 1, {.capacity = 64, .checkpoint_bytes = 1 << 20});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_THAT(refused.error().message(), HasSubstr("of no use"));
}

TEST(Checkpoints, AForkHasItsOwn) {
    const TinyModel model = tiny_model(kState);
    Engine engine = tiny_engine(model, with_checkpoints(model, 4));
    Engine plain = tiny_engine(model, {.max_sessions = 2, .chunk = kChunk});
    Rng rng{8};
    const Calls head = random_calls(70, kChunk, rng), tail = random_calls(40, kChunk, rng);
    Session one = new_session(engine);
    read_calls(one, head);
    Result<Session> fork = one.fork();
    ASSERT_TRUE(fork.ok());
    EXPECT_EQ(fork->rewind_limit(), one.rewind_limit());
    read_calls(one, tail);
    ASSERT_TRUE(fork->rewind(kEvery).ok());
    ASSERT_TRUE(one.rewind(5).ok());
    Session a = new_session(plain), b = new_session(plain);
    read_calls(a, first_tokens(head, 70 - kEvery));
    EXPECT_EQ(read_calls(*fork, tail), read_calls(a, tail));
    read_calls(b, head);
    read_calls(b, first_tokens(tail, 35));
    EXPECT_EQ(read_calls(one, head), read_calls(b, head));
}

TEST(Checkpoints, AreNoPartOfASnapshot) {
    const TinyModel model = tiny_model(kState);
    Engine engine = tiny_engine(model, with_checkpoints(model, 4));
    Engine plain = tiny_engine(model, {.chunk = kChunk});
    Rng rng{8};
    const Calls head = random_calls(70, kChunk, rng), tail = random_calls(20, kChunk, rng);
    Session one = new_session(engine), bare = new_session(plain), other = new_session(engine);
    read_calls(one, head);
    read_calls(bare, head);
    const auto file = encode_snapshot(one, {});
    EXPECT_EQ(file, encode_snapshot(bare, {}));
    read_calls(other, tail);
    ASSERT_TRUE(decode_snapshot(other, file, "file").ok());
    EXPECT_EQ(other.rewind_limit(), 0);  // the state that was loaded is where it begins
    const auto hashes = read_calls(other, tail);
    EXPECT_EQ(other.rewind_limit(), 20);
    ASSERT_TRUE(other.rewind(20).ok());
    EXPECT_EQ(read_calls(other, tail), hashes);
}

TEST(Checkpoints, WorkInBatches) {
    const TinyModel model = tiny_model(kState);
    Engine engine = tiny_engine(model, with_checkpoints(model, 3));
    Engine plain = tiny_engine(model, {.max_sessions = 3, .chunk = kChunk});
    std::vector<Session> sessions, alone;
    std::vector<Session*> batch;
    for (int i = 0; i < 3; ++i) {
        sessions.push_back(new_session(engine));
        alone.push_back(new_session(plain));
    }
    for (Session& session : sessions) batch.push_back(&session);
    std::vector<Calls> histories(3);
    Rng rng{4};
    const auto step = [&] {
        const std::vector<int32_t> tokens = tiny_tokens(12, rng.next());
        EXPECT_TRUE(engine.step(batch, tokens).ok());
        for (size_t i = 0; i < 3; ++i)
            histories[i].emplace_back(tokens.begin() + 4 * i, tokens.begin() + 4 * (i + 1));
    };
    for (int k = 0; k < 15; ++k) step();
    for (size_t i = 0; i < 3; ++i) {
        const auto back = static_cast<int64_t>(3 + 6 * i);
        ASSERT_TRUE(sessions[i].rewind(back).ok());
        histories[i] = first_tokens(histories[i], 60 - back);
    }
    step();
    for (size_t i = 0; i < 3; ++i) {
        const auto expected = read_calls(alone[i], histories[i]).back();
        EXPECT_EQ(checksum(std::span<const float>(sessions[i].logits())), expected);
    }
}

}  // namespace
}  // namespace bifocal
