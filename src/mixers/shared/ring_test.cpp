// Who sees whom, by written-out tables: the plan of a ring, and what a stage makes of long chunks.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/rng.h"
#include "mixers/shared/ring_stage.h"

namespace bifocal {
namespace {

// Slot of each token, and the slots that a query sees of its own turn and the one before.
TEST(RingPlan, WindowOfThreeWithTwoSinks) {
    const RingPlan plan{.sink_tokens = 2, .window = 3, .slack = 0};
    EXPECT_EQ(plan.slots(), 5);
    struct Row {
        int64_t token, slot;
        SlotRange sinks, own, last;
    };
    const Row table[] = {
        {0, 0, {0, 1}, {}, {}},         {1, 1, {0, 2}, {}, {}},     {2, 2, {0, 2}, {2, 3}, {}},
        {3, 3, {0, 2}, {2, 4}, {}},     {4, 4, {0, 2}, {2, 5}, {}}, {5, 2, {0, 2}, {2, 3}, {3, 5}},
        {6, 3, {0, 2}, {2, 4}, {4, 5}}, {7, 4, {0, 2}, {2, 5}, {}}, {8, 2, {0, 2}, {2, 3}, {3, 5}},
    };
    const auto same = [](SlotRange a, SlotRange b) {
        return (a.empty() && b.empty()) || (a.begin == b.begin && a.end == b.end);
    };
    for (const Row& row : table) {
        EXPECT_EQ(plan.slot(row.token), row.slot) << row.token;
        EXPECT_TRUE(same(plan.sinks_seen(row.token), row.sinks)) << row.token;
        EXPECT_TRUE(same(plan.own_turn_seen(row.token), row.own)) << row.token;
        EXPECT_TRUE(same(plan.last_turn_seen(row.token), row.last)) << row.token;
    }
}

// Slots of a ring with slack: what is kept only to be taken back to is not seen.
TEST(RingPlan, SlackIsKeptButNotSeen) {
    const RingPlan plan{.sink_tokens = 0, .window = 2, .slack = 2};
    EXPECT_EQ(plan.slots(), 4);
    EXPECT_EQ(plan.own_turn_seen(3).begin, 2);   // tokens 2 and 3
    EXPECT_EQ(plan.last_turn_seen(4).begin, 3);  // token 3, in slot 3
    EXPECT_EQ(plan.last_turn_seen(4).end, 4);
    EXPECT_TRUE(plan.last_turn_seen(5).empty());  // tokens 4 and 5 are of the own turn
}

// The same for many plans, token by token: the slots seen hold exactly the visible tokens.
TEST(RingPlan, SlotsSeenHoldTheVisibleTokens) {
    for (const RingPlan plan : {RingPlan{0, 1, 0}, RingPlan{0, 5, 0}, RingPlan{3, 4, 0},
                                RingPlan{2, 3, 4}, RingPlan{0, 4, 1}, RingPlan{7, 9, 2}}) {
        std::vector<int64_t> held(static_cast<size_t>(plan.slots()), -1);
        for (int64_t t = 0; t < 60; ++t) {
            held[plan.slot(t)] = t;
            std::multiset<int64_t> seen;
            for (const SlotRange range :
                 {plan.sinks_seen(t), plan.own_turn_seen(t), plan.last_turn_seen(t)}) {
                for (int64_t s = range.begin; s < range.end; ++s) seen.insert(held[s]);
            }
            std::multiset<int64_t> visible;
            for (int64_t j = 0; j <= t; ++j) {
                if (j < plan.sink_tokens || j > t - plan.window) visible.insert(j);
            }
            ASSERT_EQ(seen, visible) << "window " << plan.window << ", sinks " << plan.sink_tokens
                                     << ", slack " << plan.slack << ", query " << t;
        }
    }
}

// Tokens are written as their own number. Whatever the chunks, every query must find the number of
// the token that it sees in each slot, and the ring must end as if tokens had come one by one.
TEST(StagedSlots, EveryQueryFindsItsTokens) {
    constexpr int64_t D = 3;
    const auto kv_of = [](std::vector<std::byte>& memory, int64_t slots) {
        memory.assign(static_cast<size_t>(2 * slots * D) * sizeof(float), std::byte{0xff});
        return KvSlots{DType::f32,
                       D,
                       D,
                       slots,
                       memory.data(),
                       memory.data() + static_cast<size_t>(slots * D) * sizeof(float)};
    };
    const auto number_in = [](const KvSlots& kv, int64_t slot) {
        std::vector<std::byte> spare(16 * D * sizeof(float)), row(16 * sizeof(float));
        const auto* keys = reinterpret_cast<const float*>(kv.key_panel(slot / 16, spare.data()));
        const auto* values = reinterpret_cast<const float*>(kv.value_rows(0, slot, 1, row.data()));
        for (int64_t d = 0; d < D; ++d) {
            EXPECT_EQ(keys[d * 16 + slot % 16], values[d]) << "key and value, slot " << slot;
        }
        return static_cast<int64_t>(values[0]);
    };
    Rng rng{3};
    for (const RingPlan plan :
         {RingPlan{0, 1, 0}, RingPlan{2, 5, 0}, RingPlan{0, 64, 0}, RingPlan{4, 60, 0},
          RingPlan{70, 75, 0}, RingPlan{5, 70, 3}, RingPlan{1, 130, 0}}) {
        std::vector<std::byte> ring_memory, staged_memory;
        const KvSlots ring = kv_of(ring_memory, plan.slots());
        for (int64_t pos = 0; pos < 500;) {
            const int64_t n = 1 + rng.below(std::min<int64_t>(RingStage::max_tokens(plan), 190));
            StagedSlots slots{RingStage(plan, pos, pos + n), ring, {}};
            ASSERT_LE(slots.stage.staged_blocks(), RingStage::max_staged_blocks(plan, n));
            slots.staged = kv_of(staged_memory, slots.stage.staged_blocks() * kSlotBlock);
            std::vector<float> rows(static_cast<size_t>(n * D));
            for (int64_t i = 0; i < n * D; ++i) rows[i] = static_cast<float>(pos + i / D);
            slots.store(rows.data(), rows.data(), D);
            for (int64_t i = 0; i < slots.stage.n_turns(); ++i) {
                for (int64_t t = slots.stage.turn_begin(i); t < slots.stage.turn_end(i); ++t) {
                    const auto expect = [&](int64_t turn_index, SlotRange range, int64_t turn) {
                        for (int64_t s = range.begin; s < range.end; ++s) {
                            const auto place = slots.find(turn_index, s / kSlotBlock);
                            ASSERT_EQ(number_in(*place.slots, place.first + s % kSlotBlock),
                                      s + turn * plan.turning())
                                << "query " << t << ", slot " << s << ", chunk of " << n << " at "
                                << pos;
                        }
                    };
                    expect(i, plan.sinks_seen(t), 0);
                    expect(i, plan.own_turn_seen(t), plan.turn(t));
                    expect(i - 1, plan.last_turn_seen(t), plan.turn(t) - 1);
                }
            }
            slots.finish();
            pos += n;
            for (int64_t t = std::max<int64_t>(0, pos - plan.turning()); t < pos; ++t) {
                ASSERT_EQ(number_in(ring, plan.slot(t)), t) << "after " << pos;
            }
            for (int64_t t = 0; t < std::min(pos, plan.sink_tokens); ++t) {
                ASSERT_EQ(number_in(ring, t), t) << "sink, after " << pos;
            }
        }
    }
}

}  // namespace
}  // namespace bifocal
