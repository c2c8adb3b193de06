// Sessions on a tiny model: chunks, batches, forks, rewinding, room, and what is refused.
#include "runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mixers/mixer.h"
#include "runtime/drift.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal {
namespace {

using ::testing::HasSubstr;
using testing::kTinyVocab;
using testing::tiny_model;
using testing::tiny_tokens;

const std::string kWindow = "sliding_window:window=20,sink_tokens=4";

Engine engine_for(const testing::TinyModel& model, EngineOptions options = {}) {
    options.n_threads = 1;
    Result<Engine> engine = Engine::make(model.decoder, model.identity, options);
    EXPECT_TRUE(engine.ok()) << engine.error().message();
    return std::move(engine).value();
}

Session session_of(Engine& engine) {
    Result<Session> session = engine.new_session();
    EXPECT_TRUE(session.ok()) << session.error().message();
    return std::move(session).value();
}

std::vector<float> copy_of(std::span<const float> logits) {
    return {logits.begin(), logits.end()};
}

std::vector<float> logits_after(Session& session, std::span<const int32_t> tokens) {
    const Status status = session.prefill(tokens);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return copy_of(session.logits());
}

// Far below what a wrong token, position or mask would do to the logits of this model.
void expect_close(std::span<const float> a, std::span<const float> b) {
    Drift drift;
    drift.add(a, b);
    EXPECT_EQ(drift.not_finite, 0);
    EXPECT_LT(drift.max_abs, 1e-4);
}

class SessionTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Layouts, SessionTest, ::testing::Values("full", kWindow),
                         [](const auto& test) { return test.index == 0 ? "full" : "window"; });

TEST_P(SessionTest, EveryChunkSizeGivesTheSame) {
    const auto model = tiny_model(GetParam(), 1, Precision::exact);
    const auto tokens = tiny_tokens(75);
    std::vector<float> whole;
    for (const int64_t chunk : {256, 1, 7, 19, 20, 21, 24, 25}) {
        Engine engine = engine_for(model, {.kv_type = KvType::f32, .chunk = chunk});
        Session session = session_of(engine);
        const auto logits = logits_after(session, tokens);
        if (whole.empty()) whole = logits;
        expect_close(whole, logits);
    }
}

TEST_P(SessionTest, DecodeContinuesPrefill) {
    const auto model = tiny_model(GetParam(), 1, Precision::exact);
    const auto tokens = tiny_tokens(60);
    Engine engine = engine_for(model, {.kv_type = KvType::f32, .max_sessions = 2});
    Session whole = session_of(engine), steps = session_of(engine);
    logits_after(whole, tokens);
    logits_after(steps, std::span(tokens).first(30));
    for (int i = 30; i < 60; ++i) ASSERT_TRUE(steps.decode(tokens[i]).ok());
    expect_close(whole.logits(), steps.logits());
    EXPECT_EQ(steps.position(), 60);
}

TEST_P(SessionTest, ScoreGivesTheLogitsOfEveryToken) {
    const auto model = tiny_model(GetParam());
    const auto tokens = tiny_tokens(50);
    Engine engine = engine_for(model, {.max_sessions = 2, .chunk = 16, .scores = true});
    Session scored = session_of(engine), steps = session_of(engine);
    int64_t seen = 0;
    ASSERT_TRUE(scored
                    .score(tokens,
                           [&](int64_t begin, std::span<const float> logits) {
                               EXPECT_EQ(begin, seen);
                               for (size_t i = 0; i < logits.size(); i += kTinyVocab) {
                                   EXPECT_TRUE(steps.decode(tokens[seen++]).ok());
                                   expect_close(logits.subspan(i, kTinyVocab), steps.logits());
                               }
                               return true;
                           })
                    .ok());
    EXPECT_EQ(seen, 50);
    EXPECT_EQ(scored.logits().size(), size_t{kTinyVocab});
}

TEST_P(SessionTest, ABatchDoesNotChangeItsSequences) {
    const auto model = tiny_model(GetParam());
    Engine engine = engine_for(model, {.max_sessions = 6, .max_batch = 3});
    std::vector<Session> together, alone;
    std::vector<Session*> batch;
    for (int i = 0; i < 3; ++i) {
        const auto head = tiny_tokens(5 + 11 * i, 20 + i);
        together.push_back(session_of(engine));
        alone.push_back(session_of(engine));
        logits_after(together[i], head);
        logits_after(alone[i], head);
    }
    for (Session& session : together) batch.push_back(&session);
    for (const int n : {1, 1, 4, 1}) {
        const auto tokens = tiny_tokens(3 * n, 90 + n);
        ASSERT_TRUE(engine.step(batch, tokens).ok());
        for (int i = 0; i < 3; ++i) {
            logits_after(alone[i], std::span(tokens).subspan(i * n, n));
            EXPECT_EQ(copy_of(alone[i].logits()), copy_of(together[i].logits()));
        }
    }
}

TEST_P(SessionTest, AForkGoesItsOwnWay) {
    const auto model = tiny_model(GetParam());
    Engine engine = engine_for(model, {.max_sessions = 3});
    Session one = session_of(engine);
    logits_after(one, tiny_tokens(40));
    Result<Session> fork = one.fork();
    ASSERT_TRUE(fork.ok());
    EXPECT_EQ(copy_of(fork->logits()), copy_of(one.logits()));
    logits_after(*fork, tiny_tokens(30, 8));
    Session untouched = session_of(engine);
    logits_after(untouched, tiny_tokens(40));
    EXPECT_EQ(logits_after(one, tiny_tokens(1, 5)), logits_after(untouched, tiny_tokens(1, 5)));
    EXPECT_EQ(fork->position(), 70);
}

TEST_P(SessionTest, ResetForgetsEverything) {
    const auto model = tiny_model(GetParam());
    Engine engine = engine_for(model, {.max_sessions = 2});
    Session used = session_of(engine), fresh = session_of(engine);
    logits_after(used, tiny_tokens(70));
    used.reset();
    EXPECT_EQ(used.position(), 0);
    EXPECT_TRUE(used.logits().empty());
    EXPECT_EQ(logits_after(used, tiny_tokens(33, 4)), logits_after(fresh, tiny_tokens(33, 4)));
}

TEST(Session, RewindTakesBackWhatTheRingKept) {
    const auto model = tiny_model("sliding_window:window=20,sink_tokens=4,rewind=8");
    Engine engine = engine_for(model, {.max_sessions = 2});
    Session session = session_of(engine), straight = session_of(engine);
    const auto head = tiny_tokens(100), tail = tiny_tokens(12, 6);
    logits_after(session, head);
    logits_after(straight, head);
    logits_after(session, tiny_tokens(8, 77));
    EXPECT_EQ(session.rewind_limit(), 8);
    ASSERT_TRUE(session.rewind(5).ok());
    EXPECT_EQ(session.rewind_limit(), 3);
    ASSERT_TRUE(session.rewind(3).ok());
    EXPECT_TRUE(session.logits().empty());
    EXPECT_EQ(logits_after(session, tail), logits_after(straight, tail));
}

TEST(Session, RewindBeyondTheLimitIsRefused) {
    const auto model = tiny_model("sliding_window:window=20,sink_tokens=4,rewind=8");
    Engine engine = engine_for(model);
    Session session = session_of(engine);
    logits_after(session, tiny_tokens(100));
    const Status status = session.rewind(9);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message(), HasSubstr("cannot take back 9 of 100 tokens"));
    EXPECT_EQ(session.position(), 100);
    ASSERT_TRUE(session.rewind(8).ok());
    EXPECT_FALSE(session.rewind(1).ok());
}

TEST(Session, FullAttentionSaysWhatDoesNotFit) {
    const auto model = tiny_model("full");
    Engine engine = engine_for(model, {.capacity = 40});
    Session session = session_of(engine);
    const Status status = session.prefill(tiny_tokens(41));
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message(), HasSubstr("a prompt of 41 tokens does not fit"));
    EXPECT_THAT(status.error().message(), HasSubstr("-c 41"));
    EXPECT_EQ(session.position(), 0);
    logits_after(session, tiny_tokens(40));
    EXPECT_FALSE(session.decode(1).ok());
    EXPECT_EQ(session.position(), 40);
}

TEST(Session, ALimitHoldsForWindowsToo) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model, {.max_tokens = 40});
    Session session = session_of(engine);
    EXPECT_FALSE(session.prefill(tiny_tokens(41)).ok());
    EXPECT_TRUE(session.prefill(tiny_tokens(40)).ok());
    EXPECT_EQ(session.memory().capacity, 40);
}

TEST(Session, TokensOutsideTheVocabularyAreRefused) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session session = session_of(engine);
    EXPECT_FALSE(session.decode(static_cast<int32_t>(kTinyVocab)).ok());
    EXPECT_FALSE(session.decode(-1).ok());
    EXPECT_EQ(session.position(), 0);
}

TEST(Session, PrefillStopsWhenTold) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model, {.chunk = 10});
    Session session = session_of(engine);
    EXPECT_FALSE(session.prefill(tiny_tokens(50), [](int64_t done) { return done < 20; }).ok());
    EXPECT_EQ(session.position(), 20);
}

TEST(Session, SlotsRunOutAndComeBack) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model, {.max_sessions = 1});
    {
        const Session session = session_of(engine);
        EXPECT_FALSE(engine.new_session().ok());
        EXPECT_FALSE(session.fork().ok());
    }
    EXPECT_TRUE(engine.new_session().ok());
}

TEST(Session, OneByteOverTheBudgetIsRefused) {
    const auto model = tiny_model(kWindow);
    const int64_t bytes = engine_for(model).state_bytes();
    EXPECT_TRUE(Engine::make(model.decoder, 1, {.max_bytes_per_sequence = bytes}).ok());
    const auto refused = Engine::make(model.decoder, 1, {.max_bytes_per_sequence = bytes - 1});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message(), HasSubstr(std::to_string(bytes)));
}

TEST(Session, MemoryTellsWhatLeftTheWindow) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session session = session_of(engine);
    const MemoryReport before = session.memory();
    logits_after(session, tiny_tokens(100));
    const MemoryReport after = session.memory();
    EXPECT_EQ(before.state_bytes, after.state_bytes);
    EXPECT_EQ(after.tokens_visible + after.tokens_left, 100);
    EXPECT_EQ(after.tokens_visible, 23);  // 4 sinks and 19 tokens beside the next one
    EXPECT_EQ(after.capacity, -1);
    // 2 layers of 100 keys and values: 2 heads of 8 numbers, 2 bytes each.
    EXPECT_GE(after.full_attention_bytes, 2 * 100 * 2 * 2 * 8 * 2);
    EXPECT_LT(after.full_attention_bytes, 2 * 112 * 2 * 2 * 8 * 2 + 256);
}

}  // namespace
}  // namespace bifocal
