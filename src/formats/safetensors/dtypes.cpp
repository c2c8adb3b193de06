#include "formats/safetensors/dtypes.h"

#include <algorithm>

namespace bifocal::safetensors {
namespace {

struct Row {
    std::string_view name;
    DType dtype;
};
constexpr Row kTable[] = {
    {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}, {"F64", DType::f64},
    {"I8", DType::i8},   {"I16", DType::i16}, {"I32", DType::i32},   {"I64", DType::i64},
    {"U8", DType::u8},   {"BOOL", DType::u8},
};
constexpr std::string_view kOthers[] = {"F8_E5M2",     "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
                                        "F8_E5M2FNUZ", "U16",     "U32",     "U64",
                                        "C64",         "F4",      "F6_E2M3", "F6_E3M2"};

}  // namespace

std::optional<DType> dtype_of_name(std::string_view name) {
    for (const Row& row : kTable) {
        if (row.name == name) return row.dtype;
    }
    return std::nullopt;
}

bool is_format_dtype(std::string_view name) {
    return dtype_of_name(name) || std::ranges::find(kOthers, name) != std::end(kOthers);
}

std::optional<std::string_view> name_of_dtype(DType dtype) {
    for (const Row& row : kTable) {
        if (row.dtype == dtype) return row.name;
    }
    return std::nullopt;
}

}  // namespace bifocal::safetensors
