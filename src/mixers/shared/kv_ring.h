// Where the keys and values of one attention layer and sequence lie: RingPlan says which token is
// in which slot and who sees it, KvSlots is the memory of one kv head. The first `sink_tokens`
// tokens keep slots 0.. for ever; later tokens go round the rest. Full attention is a ring as long
// as its capacity that never turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mixers/state.h"

namespace bifocal {

// Slots [begin, end); empty when end <= begin.
struct SlotRange {
    int64_t begin = 0;
    int64_t end = 0;

    bool empty() const { return end <= begin; }
    SlotRange within(int64_t first, int64_t last) const {
        return {std::max(begin, first), std::min(end, last)};
    }
};

struct RingPlan {
    int64_t sink_tokens = 0;
    int64_t window = 0;  // tokens a query sees besides sinks, itself included
    int64_t slack = 0;   // further tokens that are kept, so that this many can be taken back

    int64_t turning() const { return window + slack; }
    int64_t slots() const { return sink_tokens + turning(); }
    // How often the ring had gone round when this token came.
    int64_t turn(int64_t token) const {
        return token < sink_tokens ? 0 : (token - sink_tokens) / turning();
    }
    int64_t slot(int64_t token) const { return token - turn(token) * turning(); }
    // First token of a turn.
    int64_t turn_begin(int64_t turn) const {
        return turn == 0 ? 0 : sink_tokens + turn * turning();
    }

    // What a query sees, as slots: the sinks, the tokens of its own turn of the ring, and those of
    // the turn before that are still in the window.
    SlotRange sinks_seen(int64_t query) const { return {0, std::min(sink_tokens, query + 1)}; }
    SlotRange own_turn_seen(int64_t query) const {
        const int64_t at = slot(query);
        return {std::max(sink_tokens, at - window + 1), at + 1};
    }
    SlotRange last_turn_seen(int64_t query) const {
        if (turn(query) == 0) return {};
        return {std::max(sink_tokens, slot(query) + slack + 1), slots()};
    }
};

// Keys and values of one kv head, in panels shaped for the tile kernels of ops/kernels. Exactly
// slots · D and slots · V elements; a last panel that is not full is just narrower.
struct KvSlots {
    DType dtype = DType::bf16;  // or f32
    int64_t head_dim = 0;       // D, of keys
    int64_t value_dim = 0;      // V
    int64_t slots = 0;
    std::byte* keys = nullptr;    // panels of 16 slots, each [D, 16]
    std::byte* values = nullptr;  // panels of 16 dims, each [slots, 16]; null: a key begins with it

    static constexpr int64_t kPanel = 16;
    size_t elem_bytes() const { return dtype == DType::f32 ? 4 : 2; }
    int64_t value_panels() const { return (value_dim + kPanel - 1) / kPanel; }

    // key: [D]; value: [V], not looked at where a key holds it
    void write(int64_t slot, std::span<const float> key, std::span<const float> value);
    void read(int64_t slot, std::span<float> key, std::span<float> value) const;
    // What a number becomes when it is written and read again.
    static float rounded(DType dtype, float x);
    // Slots [from, from + n) of `other` to [to, to + n) here. Same dtype, D and V.
    void copy(int64_t to, const KvSlots& other, int64_t from, int64_t n);

    // Panel of keys as [D, 16]; a narrow one is widened into `spare` (D · 16 elements).
    const std::byte* key_panel(int64_t panel, std::byte* spare) const;
    // Rows [slot, slot + n) of a panel of values as [n, 16], in place or in `spare` (n · 16
    // elements).
    const std::byte* value_rows(int64_t panel, int64_t slot, int64_t n, std::byte* spare) const;
};

// Fields "k" and "v", each [G, slots, D] elements in the order of KvSlots.
void add_kv_fields(StateLayout& layout, int64_t n_kv_heads, int64_t slots, int64_t head_dim,
                   DType dtype);
KvSlots kv_slots(const StateLayout& layout, std::byte* state, int64_t kv_head);

// Field "kv", [slots, width] elements: keys of one kv head that begin with their values.
void add_latent_field(StateLayout& layout, int64_t slots, int64_t width, DType dtype);
KvSlots latent_slots(const StateLayout& layout, std::byte* state, int64_t value_dim);

}  // namespace bifocal
