#include "runtime/round_states.h"

#include <span>

#include "core/dtype.h"

namespace bifocal {
namespace {

// visit(offset in a sequence's state, field)
template <class Visit>
void for_each_linear_field(const StatePlan& plan, Visit visit) {
    for (size_t i = 0; i < plan.layers.size(); ++i)
        for (const StateField& field : plan.layers[i].fields) {
            const bool is_cached = field.name == "k" || field.name == "v";
            if (field.dtype == DType::f32 && !is_cached)
                visit(plan.offsets[i] + field.offset, field);
        }
}

}  // namespace

size_t linear_state_bytes(const StatePlan& plan) {
    size_t bytes = 0;
    for_each_linear_field(plan, [&](size_t, const StateField& field) { bytes += field.bytes; });
    return bytes;
}

void round_states_to_bf16(const StatePlan& plan, std::byte* states) {
    for_each_linear_field(plan, [&](size_t offset, const StateField& field) {
        auto* const values = reinterpret_cast<float*>(states + offset);
        for (float& value : std::span(values, field.bytes / sizeof(float)))
            value = bf16_to_f32(f32_to_bf16(value));
    });
}

}  // namespace bifocal
