// A 64-bit checksum for snapshots and logits. Four lanes of 8-byte words, each step a bijection of
// the lane, so any change inside one word changes the sum for certain. docs/snapshot.md spells it
// out. Not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bifocal {

class Checksum {
  public:
    void add(std::span<const std::byte> bytes);
    uint64_t value() const;

  private:
    void add_word(uint64_t word);
    std::array<uint64_t, 4> lanes_{1, 2, 3, 4};
    uint64_t n_bytes_ = 0;
    uint64_t pending_ = 0;  // the bytes of a word not yet whole
};

uint64_t checksum(std::span<const std::byte> bytes);
inline uint64_t checksum(std::span<const float> values) {
    return checksum(std::as_bytes(values));
}

}  // namespace bifocal
