#include "runtime/checksum.h"

#include <bit>
#include <cstring>

namespace bifocal {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ull;  // odd

uint64_t mix(uint64_t lane, uint64_t word) {
    return std::rotl((lane ^ word) * kMultiplier, 29);
}

}  // namespace

void Checksum::add_word(uint64_t word) {
    uint64_t& lane = lanes_[(n_bytes_ / 8) % 4];
    lane = mix(lane, word);
}

void Checksum::add(std::span<const std::byte> bytes) {
    size_t i = 0;
    for (; i < bytes.size() && n_bytes_ % 8 != 0; ++i) {
        pending_ |= static_cast<uint64_t>(bytes[i]) << (n_bytes_ % 8 * 8);
        if (n_bytes_ % 8 == 7) {
            add_word(pending_);
            pending_ = 0;
        }
        ++n_bytes_;
    }
    for (; i + 8 <= bytes.size(); i += 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + i, 8);
        add_word(word);
        n_bytes_ += 8;
    }
    for (; i < bytes.size(); ++i) {
        pending_ |= static_cast<uint64_t>(bytes[i]) << (n_bytes_ % 8 * 8);
        ++n_bytes_;
    }
}

uint64_t Checksum::value() const {
    uint64_t sum = mix(n_bytes_, pending_);
    for (const uint64_t lane : lanes_) sum = mix(sum, lane);
    sum ^= sum >> 32;
    return sum;
}

uint64_t checksum(std::span<const std::byte> bytes) {
    Checksum sum;
    sum.add(bytes);
    return sum.value();
}

}  // namespace bifocal
