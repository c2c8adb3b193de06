// The type numbers of GGUF: of metadata values and of tensors.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace bifocal::gguf {

enum class ValueType : uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    string,
    array,
    u64,
    i64,
    f64,
};
inline constexpr uint32_t kValueTypes = 13;

std::string_view value_type_name(ValueType type);
// Bytes of a value in the file; 0 for strings and arrays, whose length varies.
int value_type_bytes(ValueType type);
bool is_integer(ValueType type);

// Nothing when the number is unknown or names a type that we cannot decode.
std::optional<DType> dtype_of_ggml(uint32_t id);
// REQUIRES: a dtype that GGUF has (all but u8).
uint32_t ggml_of_dtype(DType dtype);
// "IQ2_XS (17)", or "unknown (99)".
std::string ggml_type_label(uint32_t id);
// "F32, F16, ...": what dtype_of_ggml accepts.
std::string supported_ggml_types();

}  // namespace bifocal::gguf
