// Snapshots: going on is bit-equal at random save points, whatever is wrong with a file is said,
// and nothing is half-written.
#include "runtime/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "bifocal/model.h"
#include "core/rng.h"
#include "runtime/checksum.h"
#include "runtime/session.h"
#include "runtime/snapshot_sections.h"
#include "runtime/testing/tiny_model.h"

namespace bifocal {
namespace {

using ::testing::HasSubstr;
using testing::tiny_model;
using testing::tiny_tokens;

const std::string kWindow = "sliding_window:window=20,sink_tokens=4";

Engine engine_for(const testing::TinyModel& model, EngineOptions options = {}) {
    options.n_threads = 1;
    options.max_sessions = 4;
    if (options.capacity == 0) options.capacity = 2048;
    Result<Engine> engine = Engine::make(model.decoder, model.identity, options);
    EXPECT_TRUE(engine.ok()) << engine.error().message();
    return std::move(engine).value();
}

Session session_of(Engine& engine, int64_t n_tokens = 0) {
    Result<Session> session = engine.new_session();
    EXPECT_TRUE(session.ok());
    if (n_tokens > 0) {
        EXPECT_TRUE(session->prefill(tiny_tokens(n_tokens)).ok());
    }
    return std::move(session).value();
}

ops::Sampler sampler_for_tests() {
    ops::SamplingOptions options;
    options.temperature = 1.3f;
    options.repeat_penalty = 1.1f;
    options.repeat_last_n = 9;
    options.seed = 12;
    return ops::Sampler(options);
}

// One sampled token: what it was and what came of it.
struct Point {
    int32_t token;
    uint64_t logits;
    bool operator==(const Point&) const = default;
};

Point go_on(Session& session, ops::Sampler& sampler) {
    std::vector<float> logits(session.logits().begin(), session.logits().end());
    const int32_t token = sampler.sample(logits);
    sampler.accept(token);
    const Status status = session.decode(token);
    EXPECT_TRUE(status.ok()) << status.error().message();
    return {token, checksum(std::span<const float>(session.logits()))};
}

void test_save_points(Engine engine, int n_points, int64_t length, int64_t most_after) {
    Session walker = session_of(engine, 3);
    ops::Sampler sampler = sampler_for_tests();
    Rng rng{77};
    std::vector<int64_t> places;
    for (int i = 0; i < n_points; ++i) places.push_back(rng.below(length));
    std::ranges::sort(places);

    std::vector<Point> run;
    std::vector<std::vector<std::byte>> files;
    for (int64_t at = 0; at < length + most_after; ++at) {
        while (files.size() < places.size() && places[files.size()] == at)
            files.push_back(encode_snapshot(
                walker,
                {.sampler = sampler, .stream = {}, .tokenizer_identity = 0, .transcript = {}}));
        run.push_back(go_on(walker, sampler));
    }
    ASSERT_EQ(files.size(), places.size());
    Session other = session_of(engine, 50);  // what it held must not matter
    for (size_t i = 0; i < files.size(); ++i) {
        auto around = decode_snapshot(other, files[i], "file");
        ASSERT_TRUE(around.ok()) << around.error().message();
        ASSERT_TRUE(around->sampler.has_value());
        EXPECT_EQ(other.position(), 3 + places[i]);
        const int64_t n = 1 + rng.below(most_after);
        for (int64_t k = 0; k < n; ++k)
            ASSERT_EQ(go_on(other, *around->sampler), run[places[i] + k])
                << "saved after " << places[i] << " tokens, " << k << " tokens later";
    }
}

TEST(Snapshot, GoingOnIsBitEqualAtAThousandRandomPoints) {
    const auto model = tiny_model(kWindow);
    test_save_points(engine_for(model), 1000, 1200, 30);
}

TEST(Snapshot, GoingOnIsBitEqualInFullAttention) {
    const auto model = tiny_model("full");
    test_save_points(engine_for(model, {.capacity = 256}), 100, 200, 30);
}

TEST(Snapshot, GoingOnIsBitEqualWithExpertsLearnedSinksAndLinearLayers) {
    for (const std::string name : {"gpt_oss", "minimax"}) {
        const auto model =
            Model::load(std::string(BIFOCAL_SOURCE_DIR) + "/tests/golden/models/" + name);
        ASSERT_TRUE(model.ok()) << model.error().message();
        auto engine = Engine::make(*model, {.capacity = 128, .max_sessions = 4, .n_threads = 1});
        ASSERT_TRUE(engine.ok()) << engine.error().message();
        test_save_points(std::move(engine).value(), 40, 80, 20);
    }
}

TEST(Snapshot, GoingOnIsBitEqualWithF32RingsAndRewindRoom) {
    const auto model = tiny_model("sliding_window:window=9,sink_tokens=2,rewind=5");
    test_save_points(engine_for(model, {.kv_type = KvType::f32}), 100, 120, 20);
}

TEST(Snapshot, EverythingComesBack) {
    const auto model = tiny_model("sliding_window:window=20,rewind=6");
    Engine engine = engine_for(model);
    Session session = session_of(engine, 60);
    ASSERT_TRUE(session.rewind(2).ok());
    ASSERT_TRUE(session.decode(5).ok());
    GenerationState around;
    around.sampler = sampler_for_tests();
    for (const int32_t token : tiny_tokens(23)) around.sampler->accept(token);
    around.sampler->rng.next();
    around.stream = tokenizer::StreamState{"\xF0\x9F\x98", true, false, true};
    around.tokenizer_identity = 99;
    around.transcript = "{\"messages\": []}";
    const auto bytes = encode_snapshot(session, around);

    Session other = session_of(engine);
    const auto loaded = decode_snapshot(other, bytes, "file", 99);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_EQ(other.position(), 59);
    EXPECT_EQ(other.rewind_limit(), session.rewind_limit());
    EXPECT_TRUE(std::ranges::equal(other.logits(), session.logits()));
    EXPECT_EQ(loaded->sampler->rng.state, around.sampler->rng.state);
    EXPECT_EQ(loaded->sampler->recent, around.sampler->recent);
    EXPECT_EQ(loaded->sampler->n_seen, 23);
    EXPECT_EQ(loaded->stream, around.stream);
    EXPECT_EQ(loaded->transcript, around.transcript);
    EXPECT_EQ(encode_snapshot(other, around), bytes);
}

TEST(Snapshot, ASessionWithoutTokensCanBeSaved) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session other = session_of(engine, 10);
    const auto bytes = encode_snapshot(session_of(engine), {});
    ASSERT_TRUE(decode_snapshot(other, bytes, "file").ok());
    EXPECT_EQ(other.position(), 0);
    EXPECT_TRUE(other.logits().empty());
}

// Loading must fail and leave the session as it was.
class Refusal : public ::testing::Test {
  protected:
    Refusal()
        : model_(tiny_model(kWindow)),
          engine_(engine_for(model_)),
          session_(session_of(engine_, 9)) {
        good_ = encode_snapshot(session_, {.sampler = sampler_for_tests(),
                                           .stream = tokenizer::StreamState{},
                                           .tokenizer_identity = 7,
                                           .transcript = "hello"});
        EXPECT_TRUE(session_.decode(1).ok());
        before_ = encode_snapshot(session_, {});
    }

    std::string refusal_of(std::span<const std::byte> bytes, uint64_t tokenizer = 7) {
        const auto loaded = decode_snapshot(session_, bytes, "a.snapshot", tokenizer);
        if (loaded.ok()) {
            before_ = encode_snapshot(session_, {});
            return "";
        }
        EXPECT_EQ(encode_snapshot(session_, {}), before_) << loaded.error().message();
        EXPECT_EQ(loaded.error().where, "a.snapshot");
        return loaded.error().message();
    }

    testing::TinyModel model_;
    Engine engine_;
    Session session_;
    std::vector<std::byte> good_, before_;
};

TEST_F(Refusal, TheFileItselfIsGood) {
    EXPECT_EQ(refusal_of(good_), "");
}

TEST_F(Refusal, EveryBitOfTheHeader) {
    for (size_t i = 0; i < 128; ++i)
        for (int bit = 0; bit < 8; ++bit) {
            auto bytes = good_;
            bytes[i] ^= static_cast<std::byte>(1 << bit);
            ASSERT_NE(refusal_of(bytes), "") << "byte " << i << ", bit " << bit;
        }
}

TEST_F(Refusal, EveryByteOfTheBody) {
    Rng rng{5};
    for (size_t i = 128; i < good_.size(); ++i) {
        auto bytes = good_;
        bytes[i] ^= static_cast<std::byte>(1 + rng.below(255));
        ASSERT_THAT(refusal_of(bytes), HasSubstr("checksum")) << "byte " << i;
        i += static_cast<size_t>(rng.below(8));
    }
}

TEST_F(Refusal, EveryTruncation) {
    for (size_t n = 0; n < good_.size(); ++n) {
        const auto message = refusal_of(std::span(good_).first(n));
        ASSERT_THAT(message, HasSubstr(n < 8 ? "not a snapshot" : "cut short")) << n << " bytes";
    }
}

TEST_F(Refusal, TrailingBytes) {
    auto bytes = good_;
    bytes.push_back(std::byte{0});
    EXPECT_THAT(refusal_of(bytes), HasSubstr("1 trailing bytes"));
}

TEST_F(Refusal, ANewerVersion) {
    auto bytes = good_;
    bytes[8] = std::byte{2};
    EXPECT_THAT(refusal_of(bytes), HasSubstr("newer version"));
    bytes[8] = std::byte{0};
    EXPECT_THAT(refusal_of(bytes), HasSubstr("unknown snapshot version"));
}

TEST_F(Refusal, AForeignFile) {
    const std::string text = "GGUF and more than eight bytes";
    EXPECT_THAT(refusal_of(std::as_bytes(std::span(text))), HasSubstr("not a snapshot"));
}

TEST_F(Refusal, AnotherModel) {
    const auto other = tiny_model(kWindow, 2);
    Engine engine = engine_for(other);
    EXPECT_THAT(refusal_of(encode_snapshot(session_of(engine, 4), {})),
                HasSubstr("another model: expected model 0000000000000001, got 0000000000000002"));
}

TEST_F(Refusal, AnotherTokenizer) {
    EXPECT_THAT(refusal_of(good_, 8), HasSubstr("another tokenizer"));
    EXPECT_EQ(refusal_of(good_, 0), "");
}

TEST_F(Refusal, AnotherLayout) {
    const auto other = tiny_model("sliding_window:window=21,sink_tokens=4");
    Engine engine = engine_for(other);
    const auto message = refusal_of(encode_snapshot(session_of(engine, 4), {}));
    EXPECT_THAT(message, HasSubstr("another layout: expected layer 0 to be"));
    EXPECT_THAT(message, HasSubstr("window=20"));
    EXPECT_THAT(message, HasSubstr("window=21"));
}

TEST_F(Refusal, AnotherKvType) {
    Engine engine = engine_for(model_, {.kv_type = KvType::f32});
    EXPECT_THAT(refusal_of(encode_snapshot(session_of(engine, 4), {})),
                HasSubstr("another layout"));
}

TEST(Snapshot, AnotherCapacityIsAnotherLayout) {
    const auto model = tiny_model("full");
    Engine small = engine_for(model, {.capacity = 64}), large = engine_for(model, {.capacity = 96});
    const auto bytes = encode_snapshot(session_of(small, 4), {});
    Session session = session_of(large);
    const auto loaded = decode_snapshot(session, bytes, "file");
    ASSERT_FALSE(loaded.ok());
    EXPECT_THAT(loaded.error().message(), HasSubstr("another layout"));
}

// Right checksums around wrong values: what a program with other ideas might write.
TEST_F(Refusal, ImpossibleValuesWithRightChecksums) {
    const auto with = [&](size_t offset, uint64_t value) {
        auto bytes = good_;
        std::memcpy(bytes.data() + offset, &value, sizeof value);
        const uint64_t head = checksum(std::span<const std::byte>(bytes).first(120));
        std::memcpy(bytes.data() + 120, &head, sizeof head);
        const uint64_t all =
            checksum(std::span<const std::byte>(bytes).first(bytes.size() - sizeof(uint64_t)));
        std::memcpy(bytes.data() + bytes.size() - sizeof all, &all, sizeof all);
        return refusal_of(bytes);
    };
    EXPECT_EQ(with(24, 1), "");  // the model's own identity: the helper itself is right
    EXPECT_THAT(with(40, ~uint64_t{0}), HasSubstr("impossible values"));  // position < 0
    EXPECT_THAT(with(48, uint64_t{1} << 60), HasSubstr("impossible values"));
    EXPECT_THAT(with(48, 1), HasSubstr("impossible values"));           // furthest < position
    EXPECT_THAT(with(72, uint64_t{1} << 63), HasSubstr("do not fit"));  // layout
    EXPECT_THAT(with(112, 0), HasSubstr("do not fill"));                // states
    uint64_t sampler_bytes;
    std::memcpy(&sampler_bytes, good_.data() + 80, sizeof sampler_bytes);
    EXPECT_THAT(with(80, sampler_bytes - 1), HasSubstr("sampler section"));  // padded the same
    EXPECT_THAT(with(88, 7), HasSubstr("tokenizer section"));
}

class SnapshotFile : public ::testing::Test {
  protected:
    SnapshotFile() {
        std::string name = (std::filesystem::temp_directory_path() / "bifocal-XXXXXX").string();
        folder_ = ::mkdtemp(name.data());
    }
    ~SnapshotFile() override { std::filesystem::remove_all(folder_); }
    std::string path(const std::string& name) const { return folder_ + "/" + name; }

    std::string folder_;
};

TEST_F(SnapshotFile, SaveAndLoad) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session one = session_of(engine, 30), other = session_of(engine);
    ASSERT_TRUE(one.save(path("s")).ok());
    ASSERT_TRUE(other.load(path("s")).ok());
    EXPECT_EQ(encode_snapshot(one, {}), encode_snapshot(other, {}));
    const auto info = read_snapshot_info(path("s"));
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->position, 30);
    EXPECT_EQ(info->capacity, 2048);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(SnapshotFile, PlacesThatCannotBeWrittenOrRead) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session session = session_of(engine, 3);
    EXPECT_FALSE(session.save(folder_).ok());
    EXPECT_FALSE(session.save(path("none/s")).ok());
    EXPECT_FALSE(session.load(path("missing")).ok());
    EXPECT_FALSE(session.load(folder_).ok());
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SnapshotFile, AKillWhileSavingLeavesAWholeFile) {
    const auto model = tiny_model(kWindow);
    Engine engine = engine_for(model);
    Session a = session_of(engine, 10), b = session_of(engine, 25), loaded = session_of(engine);
    const auto bytes_a = encode_snapshot(a, {}), bytes_b = encode_snapshot(b, {});
    Rng rng{4};
    int seen_b = 0;
    int64_t longest = 4000;  // microseconds; more on a machine on which a save takes longer
    for (int round = 0; round < 60 || (seen_b == 0 && round < 200); ++round) {
        if (seen_b == 0 && round % 20 == 19) longest *= 2;
        ASSERT_TRUE(a.save(path("s")).ok());
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            while (true) {
                (void)b.save(path("s")).ok();
                (void)a.save(path("s")).ok();
            }
        }
        ::usleep(static_cast<useconds_t>(rng.below(longest)));
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status));
        const Status read = loaded.load(path("s"));
        ASSERT_TRUE(read.ok()) << read.error().message();
        const auto now = encode_snapshot(loaded, {});
        ASSERT_TRUE(now == bytes_a || now == bytes_b);
        if (now == bytes_b) ++seen_b;
    }
    EXPECT_GT(seen_b, 0) << "the children never got as far as saving";
}

}  // namespace
}  // namespace bifocal
