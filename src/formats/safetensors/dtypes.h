// The dtype names of safetensors headers. https://github.com/huggingface/safetensors
#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"

namespace bifocal::safetensors {

// BOOL reads as u8. Nothing for a name that is unknown, or known to the format and not to us.
std::optional<DType> dtype_of_name(std::string_view name);
// True for every name of the format, supported or not.
bool is_format_dtype(std::string_view name);
// Nothing for block-quantised types, which the format does not have.
std::optional<std::string_view> name_of_dtype(DType dtype);
inline constexpr std::string_view kSupportedDtypes =
    "F32, F16, BF16, F64, I8, I16, I32, I64, U8, BOOL";

}  // namespace bifocal::safetensors
