// A hash that golden files hold in place of long lists: FNV-1a over numbers or over the bytes of
// texts, each list closed by a mark of its own. tools/golden/ computes the same.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace bifocal {

class GoldenHash {
  public:
    void add(const std::vector<int32_t>& ids) {
        for (const int32_t id : ids) mix(static_cast<uint32_t>(id));
        mix(kEnd);
    }
    void add(const std::string& text) {
        for (const char c : text) mix(static_cast<uint8_t>(c));
        mix(kEnd);
    }
    std::string hex() const {
        char buffer[17];
        std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value_));
        return buffer;
    }

  private:
    static constexpr uint32_t kEnd = 0xFFFFFFFFu;
    void mix(uint64_t n) { value_ = (value_ ^ n) * 0x100000001B3u; }
    uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace bifocal
