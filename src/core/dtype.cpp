#include "core/dtype.h"

#include <array>

#include "core/check.h"

namespace bifocal {
namespace {

constexpr std::array<DTypeInfo, 18> kInfo{{
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"f64", 1, 8},
    {"i8", 1, 1},
    {"i16", 1, 2},
    {"i32", 1, 4},
    {"i64", 1, 8},
    {"u8", 1, 1},
    {"q4_0", 32, 18},
    {"q4_1", 32, 20},
    {"q5_0", 32, 22},
    {"q5_1", 32, 24},
    {"q8_0", 32, 34},
    {"q4_k", 256, 144},
    {"q5_k", 256, 176},
    {"q6_k", 256, 210},
    {"mxfp4", 32, 17},
}};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
    return kInfo[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_name(std::string_view name) {
    for (size_t i = 0; i < kInfo.size(); ++i) {
        if (kInfo[i].name == name) return static_cast<DType>(i);
    }
    return std::nullopt;
}

int64_t dtype_bytes(DType dtype, int64_t elems) {
    const DTypeInfo& info = dtype_info(dtype);
    BIFOCAL_CHECK(elems % info.block_elems == 0, "{} elements of {} do not fill blocks of {}",
                  elems, info.name, info.block_elems);
    return elems / info.block_elems * info.block_bytes;
}

}  // namespace bifocal
