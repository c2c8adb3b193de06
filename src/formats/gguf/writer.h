// Writes small GGUF files (version 3): models for tests, seeds for fuzzing, output of tools.
// Everything is collected in memory first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"
#include "core/dtype.h"
#include "formats/gguf/types.h"

namespace bifocal::gguf {

class Writer {
  public:
    // REQUIRES: a power of two. Other than 32 it is written as general.alignment.
    explicit Writer(uint32_t alignment = 32);

    void add_u32(std::string_view key, uint32_t value);
    void add_i32(std::string_view key, int32_t value);
    void add_u64(std::string_view key, uint64_t value);
    void add_f32(std::string_view key, float value);
    void add_bool(std::string_view key, bool value);
    void add_string(std::string_view key, std::string_view value);
    void add_u32_array(std::string_view key, std::span<const uint32_t> values);
    void add_i32_array(std::string_view key, std::span<const int32_t> values);
    void add_f32_array(std::string_view key, std::span<const float> values);
    void add_bool_array(std::string_view key, const std::vector<bool>& values);
    void add_string_array(std::string_view key, const std::vector<std::string>& values);
    // A value of any type whose bytes the caller has made.
    void add_raw(std::string_view key, ValueType type, std::span<const std::byte> value);

    // `shape` outermost first. REQUIRES: bytes.size() fits shape and dtype.
    void add_tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                    std::span<const std::byte> bytes);

    std::vector<std::byte> bytes() const;
    Status write(const std::string& path) const;

  private:
    uint32_t alignment_;
    uint64_t n_keys_ = 0;
    uint64_t n_tensors_ = 0;
    std::vector<std::byte> metadata_;
    std::vector<std::byte> directory_;
    std::vector<std::byte> data_;
};

}  // namespace bifocal::gguf
