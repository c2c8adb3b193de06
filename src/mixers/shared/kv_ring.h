// KvRing: keys and values of one attention layer and sequence in a fixed number of slots.
// The first `sink_tokens` tokens keep slots 0.. for ever; later tokens go round the rest. Full
// attention is a ring as long as its capacity that never turns.
//
// Slots lie in panels of 16, shaped for the tile kernels of ops/kernels: a key panel holds
// dimension after dimension of 16 keys, a value panel holds slot after slot of 16 dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mixers/state.h"

namespace bifocal {

inline constexpr int64_t kPanelSlots = 16;

// Which tokens live where, and who sees them. The one place that knows; plain arithmetic.
struct RingPlan {
    int64_t sink_tokens = 0;
    int64_t window = 0;  // tokens a query sees besides sinks, itself included
    int64_t slack = 0;   // further tokens that are kept, so that this many can be taken back

    int64_t turning() const { return window + slack; }
    int64_t slots() const { return sink_tokens + turning(); }
    int64_t slot(int64_t token) const {
        return token < slots() ? token : sink_tokens + (token - sink_tokens) % turning();
    }
    // Slots that hold a token when `n` tokens have been written: [0, result).
    int64_t filled(int64_t n) const { return n < slots() ? n : slots(); }
    bool visible(int64_t query, int64_t token) const {
        return token <= query && (query - token < window || token < sink_tokens);
    }
};

// Where one kv head's keys and values lie in a state.
struct KvRing {
    DType dtype = DType::bf16;
    int64_t head_dim = 0;         // D
    int64_t n_panels = 0;         // of 16 slots
    std::byte* keys = nullptr;    // [n_panels, D, 16]
    std::byte* values = nullptr;  // [ceil(D / 16), n_panels, 16 slots, 16 dims]

    int64_t value_panels() const { return (head_dim + 15) / 16; }
    const std::byte* key_panel(int64_t panel) const;
    // Slots of panel `panel` onwards, dims [16 * dim_panel, +16).
    const std::byte* value_panel(int64_t dim_panel, int64_t panel) const;
    void write_key(int64_t slot, std::span<const float> key);      // [D]
    void write_value(int64_t slot, std::span<const float> value);  // [D]
    void read_key(int64_t slot, std::span<float> key) const;
    void read_value(int64_t slot, std::span<float> value) const;
};

// Fields "k" and "v" for `n_kv_heads` rings of `slots` slots.
StateLayout kv_layout(int64_t n_kv_heads, int64_t slots, int64_t head_dim, DType dtype);
KvRing kv_ring(const StateLayout& layout, std::byte* state, int64_t kv_head, int64_t head_dim);

}  // namespace bifocal
