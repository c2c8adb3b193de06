#include "formats/gguf/types.h"

#include <array>

#include "core/check.h"

namespace bifocal::gguf {
namespace {

struct ValueTypeRow {
    std::string_view name;
    int bytes;
};
constexpr std::array<ValueTypeRow, kValueTypes> kValueTable{{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"string", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

struct TensorTypeRow {
    uint32_t id;
    std::string_view name;
    std::optional<DType> dtype;
};
// Rows without a dtype are known by name only. Numbers that are missing were removed from ggml.
constexpr TensorTypeRow kTensorTable[] = {
    {0, "F32", DType::f32},    {1, "F16", DType::f16},
    {2, "Q4_0", DType::q4_0},  {3, "Q4_1", DType::q4_1},
    {6, "Q5_0", DType::q5_0},  {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},  {9, "Q8_1", {}},
    {10, "Q2_K", {}},          {11, "Q3_K", {}},
    {12, "Q4_K", DType::q4_k}, {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k}, {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},       {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},       {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},        {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},         {23, "IQ4_XS", {}},
    {24, "I8", DType::i8},     {25, "I16", DType::i16},
    {26, "I32", DType::i32},   {27, "I64", DType::i64},
    {28, "F64", DType::f64},   {29, "IQ1_M", {}},
    {30, "BF16", DType::bf16}, {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},         {39, "MXFP4", DType::mxfp4},
    {40, "NVFP4", {}},         {41, "Q1_0", {}},
    {42, "Q2_0", {}},
};

}  // namespace

std::string_view value_type_name(ValueType type) {
    return kValueTable[static_cast<size_t>(type)].name;
}

int value_type_bytes(ValueType type) {
    return kValueTable[static_cast<size_t>(type)].bytes;
}

bool is_integer(ValueType type) {
    return type <= ValueType::i32 || type == ValueType::u64 || type == ValueType::i64;
}

std::optional<DType> dtype_of_ggml(uint32_t id) {
    for (const TensorTypeRow& row : kTensorTable) {
        if (row.id == id) return row.dtype;
    }
    return std::nullopt;
}

uint32_t ggml_of_dtype(DType dtype) {
    for (const TensorTypeRow& row : kTensorTable) {
        if (row.dtype == dtype) return row.id;
    }
    BIFOCAL_CHECK(false, "GGUF has no type {}", dtype_info(dtype).name);
}

std::string ggml_type_label(uint32_t id) {
    for (const TensorTypeRow& row : kTensorTable) {
        if (row.id == id) return fmt::format("{} ({})", row.name, id);
    }
    return fmt::format("unknown ({})", id);
}

std::string supported_ggml_types() {
    std::string list;
    for (const TensorTypeRow& row : kTensorTable) {
        if (!row.dtype) continue;
        if (!list.empty()) list += ", ";
        list += row.name;
    }
    return list;
}

}  // namespace bifocal::gguf
