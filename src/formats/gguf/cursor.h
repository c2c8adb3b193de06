// Cursor: a place in the bytes of a file that never moves past the end. All its comparisons are
// between a length and what is left, never between sums, which could wrap.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "bifocal/error.h"

namespace bifocal::gguf {

class Cursor {
  public:
    Cursor(std::span<const std::byte> bytes, std::string file)
        : bytes_(bytes), file_(std::move(file)) {}

    uint64_t position() const { return position_; }
    uint64_t remaining() const { return bytes_.size() - position_; }

    // What is being read, for errors: "key 'general.name'". Empty for none.
    void set_subject(std::string subject) { subject_ = std::move(subject); }

    Error error(std::string what, std::string expected = {}, std::string got = {},
                std::string hint = {}) const {
        return error_at(position_, std::move(what), std::move(expected), std::move(got),
                        std::move(hint));
    }
    Error error_at(uint64_t offset, std::string what, std::string expected = {},
                   std::string got = {}, std::string hint = {}) const {
        std::string where = fmt::format("{}, offset {}", file_, offset);
        if (!subject_.empty()) where += ", " + subject_;
        return {.what = std::move(what),
                .where = std::move(where),
                .expected = std::move(expected),
                .got = std::move(got),
                .hint = std::move(hint)};
    }

    // Little-endian.
    template <class T>
    Result<T> read(std::string_view what) {
        if (sizeof(T) > remaining()) return cut_short(what, sizeof(T));
        T value;
        std::memcpy(&value, bytes_.data() + position_, sizeof value);
        position_ += sizeof value;
        return value;
    }

    Result<std::span<const std::byte>> take(uint64_t n, std::string_view what) {
        if (n > remaining()) return cut_short(what, n);
        const auto taken = bytes_.subspan(position_, n);
        position_ += n;
        return taken;
    }

    // u64 length and that many bytes, at most `cap`.
    Result<std::string_view> read_string(uint64_t cap, std::string_view what) {
        const uint64_t at = position_;
        BIFOCAL_TRY(const uint64_t length, read<uint64_t>(what));
        if (length > cap) {
            return error_at(at, fmt::format("{} is too long", what),
                            fmt::format("at most {} bytes", cap), std::to_string(length));
        }
        if (length > remaining()) {
            return error_at(at, fmt::format("the file ends within {}", what),
                            fmt::format("{} bytes", length), fmt::format("{}", remaining()),
                            "the file is incomplete or damaged");
        }
        const auto* text = reinterpret_cast<const char*>(bytes_.data() + position_);
        position_ += length;
        return std::string_view(text, length);
    }

  private:
    Error cut_short(std::string_view what, uint64_t n) const {
        return error(fmt::format("the file ends within {}", what), fmt::format("{} bytes", n),
                     fmt::format("{}", remaining()), "the file is incomplete or damaged");
    }

    std::span<const std::byte> bytes_;
    std::string file_;
    std::string subject_;
    uint64_t position_ = 0;
};

}  // namespace bifocal::gguf
