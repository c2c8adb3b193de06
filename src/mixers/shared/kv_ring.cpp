#include "mixers/shared/kv_ring.h"

#include <cstring>

#include "core/check.h"

namespace bifocal {
namespace {

constexpr int64_t kPanel = KvSlots::kPanel;

template <class T>
T stored(float x) {
    if constexpr (sizeof(T) == 4) return x;
    return f32_to_bf16(x);
}

template <class T>
void write_as(const KvSlots& kv, int64_t slot, std::span<const float> key,
              std::span<const float> value) {
    const int64_t D = kv.head_dim, first = slot / kPanel * kPanel;
    const int64_t n = std::min(kPanel, kv.slots - first);
    T* k = reinterpret_cast<T*>(kv.keys) + first * D + slot - first;
    for (int64_t d = 0; d < D; ++d) k[d * n] = stored<T>(key[d]);
    if (kv.values == nullptr) return;
    for (int64_t d0 = 0; d0 < kv.value_dim; d0 += kPanel) {
        const int64_t width = std::min(kPanel, kv.value_dim - d0);
        T* v = reinterpret_cast<T*>(kv.values) + d0 * kv.slots + slot * width;
        for (int64_t d = 0; d < width; ++d) v[d] = stored<T>(value[d0 + d]);
    }
}

template <class T>
float loaded(T x) {
    if constexpr (sizeof(T) == 4) return x;
    return bf16_to_f32(static_cast<uint16_t>(x));
}

template <class T>
void read_as(const KvSlots& kv, int64_t slot, std::span<float> key, std::span<float> value) {
    const int64_t D = kv.head_dim, first = slot / kPanel * kPanel;
    const int64_t n = std::min(kPanel, kv.slots - first);
    const T* k = reinterpret_cast<const T*>(kv.keys) + first * D + slot - first;
    for (int64_t d = 0; d < D; ++d) key[d] = loaded<T>(k[d * n]);
    if (kv.values == nullptr) {
        std::ranges::copy(key.first(value.size()), value.begin());
        return;
    }
    for (int64_t d0 = 0; d0 < kv.value_dim; d0 += kPanel) {
        const int64_t width = std::min(kPanel, kv.value_dim - d0);
        const T* v = reinterpret_cast<const T*>(kv.values) + d0 * kv.slots + slot * width;
        for (int64_t d = 0; d < width; ++d) value[d0 + d] = loaded<T>(v[d]);
    }
}

// Keys of slots that share a panel on both sides.
template <class T>
void copy_keys(const KvSlots& to, int64_t to_slot, const KvSlots& from, int64_t from_slot,
               int64_t n) {
    const int64_t D = to.head_dim;
    const auto place = [D](const KvSlots& kv, int64_t slot, int64_t& step) {
        const int64_t first = slot / kPanel * kPanel;
        step = std::min(kPanel, kv.slots - first);
        return reinterpret_cast<T*>(kv.keys) + first * D + slot - first;
    };
    int64_t to_step, from_step;
    T* out = place(to, to_slot, to_step);
    const T* in = place(from, from_slot, from_step);
    for (int64_t d = 0; d < D; ++d) std::copy_n(in + d * from_step, n, out + d * to_step);
}

template <class T>
void copy_as(const KvSlots& to, int64_t to_slot, const KvSlots& from, int64_t from_slot,
             int64_t n) {
    for (int64_t i = 0; i < n;) {
        const int64_t room =
            std::min(kPanel - (to_slot + i) % kPanel, kPanel - (from_slot + i) % kPanel);
        const int64_t run = std::min(room, n - i);
        copy_keys<T>(to, to_slot + i, from, from_slot + i, run);
        i += run;
    }
    if (to.values == nullptr) return;
    for (int64_t d0 = 0; d0 < to.value_dim; d0 += kPanel) {
        const int64_t width = std::min(kPanel, to.value_dim - d0);
        std::copy_n(reinterpret_cast<const T*>(from.values) + d0 * from.slots + from_slot * width,
                    n * width, reinterpret_cast<T*>(to.values) + d0 * to.slots + to_slot * width);
    }
}

// [n, width] → [n, 16], zeros on the right.
void widen(const std::byte* rows, int64_t n, int64_t width, size_t elem_bytes, std::byte* out) {
    const size_t row = static_cast<size_t>(width) * elem_bytes;
    const size_t full = KvSlots::kPanel * elem_bytes;
    for (int64_t i = 0; i < n; ++i, rows += row, out += full) {
        std::memcpy(out, rows, row);
        std::memset(out + row, 0, full - row);
    }
}

// Elements [d0, d0 + width) of the keys of n slots as [n, 16], zeros on the right.
template <class T>
void gather_from_keys(const KvSlots& kv, int64_t d0, int64_t width, int64_t slot, int64_t n,
                      T* out) {
    std::fill_n(out, width < kPanel ? n * kPanel : 0, T{0});
    for (int64_t i = 0; i < n;) {
        const int64_t first = (slot + i) / kPanel * kPanel;
        const int64_t step = std::min(kPanel, kv.slots - first);
        const int64_t run = std::min(n - i, first + kPanel - slot - i);
        const T* const keys = reinterpret_cast<const T*>(kv.keys) + first * kv.head_dim +
                              d0 * step + slot + i - first;
        for (int64_t d = 0; d < width; ++d)
            for (int64_t s = 0; s < run; ++s) out[(i + s) * kPanel + d] = keys[d * step + s];
        i += run;
    }
}

}  // namespace

void KvSlots::write(int64_t slot, std::span<const float> key, std::span<const float> value) {
    if (dtype == DType::f32) return write_as<float>(*this, slot, key, value);
    write_as<uint16_t>(*this, slot, key, value);
}

void KvSlots::read(int64_t slot, std::span<float> key, std::span<float> value) const {
    if (dtype == DType::f32) return read_as<float>(*this, slot, key, value);
    read_as<uint16_t>(*this, slot, key, value);
}

float KvSlots::rounded(DType dtype, float x) {
    return dtype == DType::f32 ? x : loaded(stored<uint16_t>(x));
}

void KvSlots::copy(int64_t to, const KvSlots& other, int64_t from, int64_t n) {
    if (dtype == DType::f32) return copy_as<float>(*this, to, other, from, n);
    copy_as<uint16_t>(*this, to, other, from, n);
}

const std::byte* KvSlots::key_panel(int64_t panel, std::byte* spare) const {
    const std::byte* at = keys + static_cast<size_t>(panel * kPanel * head_dim) * elem_bytes();
    const int64_t width = std::min(kPanel, slots - panel * kPanel);
    if (width == kPanel) return at;
    widen(at, head_dim, width, elem_bytes(), spare);
    return spare;
}

const std::byte* KvSlots::value_rows(int64_t panel, int64_t slot, int64_t n,
                                     std::byte* spare) const {
    const int64_t d0 = panel * kPanel;
    const int64_t width = std::min(kPanel, value_dim - d0);
    if (values == nullptr) {
        if (dtype == DType::f32) {
            gather_from_keys(*this, d0, width, slot, n, reinterpret_cast<float*>(spare));
        } else {
            gather_from_keys(*this, d0, width, slot, n, reinterpret_cast<uint16_t*>(spare));
        }
        return spare;
    }
    const std::byte* at = values + static_cast<size_t>(d0 * slots + slot * width) * elem_bytes();
    if (width == kPanel) return at;
    widen(at, n, width, elem_bytes(), spare);
    return spare;
}

namespace {

void check_kv_dtype(DType dtype) {
    BIFOCAL_CHECK(dtype == DType::bf16 || dtype == DType::f32, "kv dtype {}",
                  dtype_info(dtype).name);
}

}  // namespace

void add_kv_fields(StateLayout& layout, int64_t n_kv_heads, int64_t slots, int64_t head_dim,
                   DType dtype) {
    check_kv_dtype(dtype);
    layout.add("k", dtype, {n_kv_heads, slots, head_dim});
    layout.add("v", dtype, {n_kv_heads, slots, head_dim});
}

KvSlots kv_slots(const StateLayout& layout, std::byte* state, int64_t kv_head) {
    const StateField& k = layout.field("k");
    const StateField& v = layout.field("v");
    const size_t head = static_cast<size_t>(kv_head) * (k.bytes / static_cast<size_t>(k.shape[0]));
    return {.dtype = k.dtype,
            .head_dim = k.shape[2],
            .value_dim = v.shape[2],
            .slots = k.shape[1],
            .keys = state + k.offset + head,
            .values = state + v.offset + head};
}

void add_latent_field(StateLayout& layout, int64_t slots, int64_t width, DType dtype) {
    check_kv_dtype(dtype);
    layout.add("kv", dtype, {slots, width});
}

KvSlots latent_slots(const StateLayout& layout, std::byte* state, int64_t value_dim) {
    const StateField& kv = layout.field("kv");
    return {.dtype = kv.dtype,
            .head_dim = kv.shape[1],
            .value_dim = value_dim,
            .slots = kv.shape[0],
            .keys = state + kv.offset};
}

}  // namespace bifocal
