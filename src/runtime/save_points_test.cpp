// At least a thousand random save points over every mixer and rule: a session that goes on from a
// file in a session that knows nothing, or in a fork, gives the same bits as one that never
// stopped.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "mixers/shared/rule_names.h"
#include "runtime/snapshot.h"
#include "runtime/testing/layouts.h"
#include "runtime/testing/walk.h"

namespace bifocal {
namespace {

using namespace testing;

constexpr int64_t kTokens = 120, kMostOfACall = 29;
constexpr int64_t kPointsNeeded = 1000, kForksOfALayout = 4;

// The sections of a file take what the plan says, and the layout they describe is the plan's.
void expect_planned_sizes(std::span<const std::byte> file, const Engine& engine) {
    const StatePlan& plan = engine.impl().plan;
    const auto number = [&](size_t offset) {
        uint64_t value;
        std::memcpy(&value, file.data() + offset, sizeof value);
        return value;
    };
    const auto padded = [](uint64_t n) { return (n + 63) / 64 * 64; };
    const uint64_t layout = number(72), logits = number(104), state = number(112);
    ASSERT_EQ(state, plan.bytes);
    ASSERT_EQ(logits, kTinyVocab * sizeof(float));
    ASSERT_EQ(number(80) + number(88) + number(96), 0u);
    ASSERT_EQ(file.size(), 128 + padded(layout) + padded(logits) + padded(state) + 8);
    const auto json =
        nlohmann::json::parse(reinterpret_cast<const char*>(file.data()) + 128,
                              reinterpret_cast<const char*>(file.data()) + 128 + layout);
    ASSERT_EQ(json["layers"].size(), plan.layers.size());
    for (size_t i = 0; i < plan.layers.size(); ++i) {
        const auto& fields = json["layers"][i]["fields"];
        ASSERT_EQ(fields.size(), plan.layers[i].fields.size());
        for (size_t f = 0; f < fields.size(); ++f) {
            const StateField& field = plan.layers[i].fields[f];
            ASSERT_EQ(fields[f]["name"], field.name);
            ASSERT_EQ(fields[f]["bytes"], field.bytes);
            ASSERT_EQ(fields[f]["offset"], plan.offsets[i] + field.offset);
            ASSERT_LE(plan.offsets[i] + field.offset + field.bytes, state);
        }
    }
}

class LayoutWalk {
  public:
    LayoutWalk(const TinyLayout& layout, uint64_t seed)
        : model_(tiny_model(layout.mixers)),
          engine_(tiny_engine(model_, {.max_sessions = 4, .chunk = kMostOfACall})),
          rng_{seed},
          calls_(random_calls(kTokens, kMostOfACall, rng_)) {}

    // Random save points of a straight run.
    void test_files(int64_t n_points) {
        std::vector<int64_t> points;  // calls read before
        for (int64_t i = 0; i < n_points; ++i) points.push_back(rng_.below(std::ssize(calls_)));
        std::vector<std::vector<std::byte>> files(calls_.size());
        std::vector<uint64_t> straight;
        Session walker = new_session(engine_);
        for (size_t i = 0; i < calls_.size(); ++i) {
            if (std::ranges::find(points, static_cast<int64_t>(i)) != points.end())
                files[i] = encode_snapshot(walker, {});
            straight.push_back(read_call(walker, calls_[i]));
        }
        for (const int64_t point : points) {
            Session fresh = new_session(engine_);
            const Calls other = random_calls(1 + rng_.below(20), kMostOfACall, rng_);
            read_calls(fresh, other);  // what it held must not matter
            const auto loaded = decode_snapshot(fresh, files[point], "file");
            ASSERT_TRUE(loaded.ok()) << loaded.error().message();
            if (point > 0) expect_planned_sizes(files[point], engine_);
            const int64_t n = std::min(1 + rng_.below(6), std::ssize(calls_) - point);
            for (int64_t k = point; k < point + n; ++k)
                ASSERT_EQ(read_call(fresh, calls_[k]), straight[k])
                    << "saved before call " << point << ", at call " << k;
        }
    }

    // A fork and what it left go different ways; each as a session that went this way from the
    // first token on.
    void test_forks() {
        for (int64_t i = 0; i < kForksOfALayout; ++i) {
            const int64_t at = 1 + rng_.below(kTokens - 1);
            const Calls head = first_tokens(calls_, at);
            const Calls ways[] = {random_calls(15, kMostOfACall, rng_),
                                  random_calls(25, kMostOfACall, rng_)};
            Session one = new_session(engine_), straight = new_session(engine_);
            read_calls(one, head);
            Result<Session> fork = one.fork();
            ASSERT_TRUE(fork.ok());
            const auto of_fork = read_calls(*fork, ways[0]), of_one = read_calls(one, ways[1]);
            read_calls(straight, head);
            ASSERT_EQ(read_calls(straight, ways[1]), of_one) << at;
            straight.reset();
            read_calls(straight, head);
            ASSERT_EQ(read_calls(straight, ways[0]), of_fork) << at;
        }
    }

  private:
    TinyModel model_;
    Engine engine_;
    Rng rng_;
    Calls calls_;
};

TEST(SavePoints, AThousandOverEveryMixerGoOnBitByBit) {
    const std::vector<TinyLayout> layouts = every_tiny_layout();
    const int64_t each = (kPointsNeeded + std::ssize(layouts) - 1) / std::ssize(layouts);
    int64_t n_points = 0;
    for (const TinyLayout& layout : layouts) {
        SCOPED_TRACE(layout.name);
        LayoutWalk walk(layout, 100 + n_points);
        walk.test_files(each);
        walk.test_forks();
        if (HasFatalFailure()) return;
        n_points += each;
    }
    EXPECT_GE(n_points, 1000);
    RecordProperty("save_points", std::to_string(n_points));
}

// The list that all of this goes over is whole.
TEST(Layouts, EveryRuleIsThereAloneAndBesideAWindow) {
    const auto mixers = every_mixer(tiny_layer(), 9);
    for (const std::string& rule : linear_rule_names()) {
        int alone = 0, far = 0;
        for (const MixerSpec& mixer : mixers) {
            alone += mixer.options.value("rule", "") == rule;
            far += mixer.options.value("far", "") == rule;
        }
        EXPECT_EQ(alone, 1) << rule;
        EXPECT_EQ(far, 1) << rule;
    }
}

}  // namespace
}  // namespace bifocal
