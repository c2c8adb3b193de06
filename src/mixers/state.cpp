#include "mixers/state.h"

#include "core/buffer.h"
#include "core/check.h"

namespace bifocal {

void StateLayout::add(std::string name, DType dtype, std::vector<int64_t> shape) {
    int64_t elems = 1;
    for (const int64_t extent : shape) elems *= extent;
    StateField field{std::move(name), dtype, std::move(shape), bytes, 0};
    field.bytes = static_cast<size_t>(dtype_bytes(dtype, elems));
    bytes += align_up(field.bytes);
    fields.push_back(std::move(field));
}

const StateField& StateLayout::field(std::string_view name) const {
    for (const StateField& field : fields) {
        if (field.name == name) return field;
    }
    check_failed(__FILE__, __LINE__, "field", fmt::format("state has no field '{}'", name));
}

}  // namespace bifocal
