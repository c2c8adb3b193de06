// StateLayout: the bytes one layer remembers per sequence, declared before the first token.
// States are fixed-size slots; the layout is data, so a snapshot can check and store it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace bifocal {

// Chosen when a session is made; the same for every layer.
struct StateOptions {
    int64_t capacity = 0;          // tokens that full attention can hold; other mixers ignore it
    DType kv_dtype = DType::bf16;  // of KV rings: bf16 or f32
};

struct StateField {
    std::string name;  // "k", "v", "conv_tail", "s"
    DType dtype = DType::f32;
    std::vector<int64_t> shape;  // outermost first
    size_t offset = 0;           // from the slot's begin, 64-byte aligned
    size_t bytes = 0;
};

struct StateLayout {
    std::vector<StateField> fields;
    size_t bytes = 0;       // of one slot, padding included
    int64_t capacity = -1;  // tokens it can hold; -1: any number

    void add(std::string name, DType dtype, std::vector<int64_t> shape);
    const StateField& field(std::string_view name) const;  // aborts when there is none
};

}  // namespace bifocal
