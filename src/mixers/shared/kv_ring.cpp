#include "mixers/shared/kv_ring.h"

#include <cstring>

#include "core/check.h"
#include "ops/vector.h"

namespace bifocal {
namespace {

size_t elem_bytes(DType dtype) {
    return dtype == DType::f32 ? 4 : 2;
}

void put(DType dtype, std::byte* base, int64_t index, float x) {
    if (dtype == DType::f32) {
        std::memcpy(base + 4 * index, &x, 4);
    } else {
        const uint16_t bits = f32_to_bf16(x);
        std::memcpy(base + 2 * index, &bits, 2);
    }
}

float get(DType dtype, const std::byte* base, int64_t index) {
    if (dtype == DType::f32) {
        float x;
        std::memcpy(&x, base + 4 * index, 4);
        return x;
    }
    uint16_t bits;
    std::memcpy(&bits, base + 2 * index, 2);
    return bf16_to_f32(bits);
}

int64_t key_index(const KvRing& ring, int64_t slot, int64_t dim) {
    return (slot / kPanelSlots * ring.head_dim + dim) * kPanelSlots + slot % kPanelSlots;
}
int64_t value_index(const KvRing& ring, int64_t slot, int64_t dim) {
    return (dim / 16 * ring.n_panels * kPanelSlots + slot) * 16 + dim % 16;
}

}  // namespace

const std::byte* KvRing::key_panel(int64_t panel) const {
    return keys + static_cast<size_t>(panel * head_dim * kPanelSlots) * elem_bytes(dtype);
}

const std::byte* KvRing::value_panel(int64_t dim_panel, int64_t panel) const {
    return values + static_cast<size_t>((dim_panel * n_panels + panel) * kPanelSlots * 16) *
                        elem_bytes(dtype);
}

void KvRing::write_key(int64_t slot, std::span<const float> key) {
    for (int64_t d = 0; d < head_dim; ++d) put(dtype, keys, key_index(*this, slot, d), key[d]);
}

void KvRing::write_value(int64_t slot, std::span<const float> value) {
    for (int64_t d = 0; d < head_dim; ++d)
        put(dtype, values, value_index(*this, slot, d), value[d]);
}

void KvRing::read_key(int64_t slot, std::span<float> key) const {
    for (int64_t d = 0; d < head_dim; ++d) key[d] = get(dtype, keys, key_index(*this, slot, d));
}

void KvRing::read_value(int64_t slot, std::span<float> value) const {
    for (int64_t d = 0; d < head_dim; ++d)
        value[d] = get(dtype, values, value_index(*this, slot, d));
}

StateLayout kv_layout(int64_t n_kv_heads, int64_t slots, int64_t head_dim, DType dtype) {
    BIFOCAL_CHECK(dtype == DType::bf16 || dtype == DType::f32, "kv dtype {}",
                  dtype_info(dtype).name);
    const int64_t n_panels = (slots + kPanelSlots - 1) / kPanelSlots;
    StateLayout layout;
    layout.add("k", dtype, {n_kv_heads, n_panels, head_dim, kPanelSlots});
    layout.add("v", dtype, {n_kv_heads, (head_dim + 15) / 16, n_panels, kPanelSlots, 16});
    return layout;
}

KvRing kv_ring(const StateLayout& layout, std::byte* state, int64_t kv_head, int64_t head_dim) {
    const StateField& k = layout.field("k");
    const StateField& v = layout.field("v");
    KvRing ring;
    ring.dtype = k.dtype;
    ring.head_dim = head_dim;
    ring.n_panels = k.shape[1];
    ring.keys = state + k.offset + static_cast<size_t>(kv_head) * (k.bytes / k.shape[0]);
    ring.values = state + v.offset + static_cast<size_t>(kv_head) * (v.bytes / v.shape[0]);
    return ring;
}

}  // namespace bifocal
