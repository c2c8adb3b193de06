// Byte-pair encoding of one piece: a heap of mergeable pairs over a doubly linked list of symbols,
// so that a piece of any length costs n log n.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::tokenizer {

// What a pair of neighbouring symbols becomes. Lower ranks merge first, leftmost on ties.
struct Merge {
    int32_t rank;
    int32_t id;
};

struct IdPairMerge {
    int32_t left, right;
    Merge merge;
};

// Pairs of ids to merges: open addressing, at most half full.
class MergeTable {
  public:
    // A pair given twice keeps the last.
    explicit MergeTable(const std::vector<IdPairMerge>& merges);
    const Merge* find(int32_t left, int32_t right) const {
        const uint64_t key = key_of(left, right);
        for (size_t i = hash(key) & mask_;; i = (i + 1) & mask_) {
            if (slots_[i].key == key) return &slots_[i].merge;
            if (slots_[i].key == kEmpty) return nullptr;
        }
    }

  private:
    struct Slot {
        uint64_t key;
        Merge merge;
    };
    static constexpr uint64_t kEmpty = ~uint64_t{0};
    static uint64_t key_of(int32_t left, int32_t right) {
        return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    }
    static uint64_t hash(uint64_t key) {
        key *= 0x9E3779B97F4A7C15u;
        return key ^ (key >> 29);
    }
    std::vector<Slot> slots_;
    size_t mask_ = 0;
};

struct BpeOptions {
    std::optional<int32_t> unk;
    bool fuse_unk = false;
    bool byte_fallback = false;
    bool ignore_merges = false;
};

class Bpe {
  public:
    // `tokens` by id must outlive this; only those `in_model` are matched. With `bytes`, pieces are
    // raw bytes and the vocabulary is in the byte map; without, pieces are UTF-8 text.
    Bpe(const std::vector<std::string>& tokens, const std::vector<bool>& in_model,
        const std::vector<IdPairMerge>& merges, BpeOptions options, bool bytes);

    std::optional<int32_t> find(std::string_view token) const;
    void encode(std::string_view piece, std::vector<int32_t>& ids) const;
    const BpeOptions& options() const { return options_; }

  private:
    struct Unknown {
        bool pending = false;
    };
    void add_missing(std::string_view character, std::vector<int32_t>& ids, Unknown& unknown) const;
    void initial_symbols(std::string_view piece, std::vector<int32_t>& ids) const;
    bool breaks_at_marker(const std::vector<std::string>& tokens,
                          const std::vector<IdPairMerge>& merges) const;
    void encode_part(std::string_view piece, std::vector<int32_t>& ids) const;
    void encode_new(std::string_view piece, std::vector<int32_t>& ids) const;

    std::unordered_map<std::string_view, int32_t> ids_;
    MergeTable merges_;
    BpeOptions options_;
    bool bytes_;
    bool marker_breaks_ = false;  // no merge reaches from another character over a U+2581
    int32_t byte_ids_[256];       // one-byte symbols, -1 when missing
    int32_t fallback_ids_[256];   // <0xHH>, -1 when missing
    std::unordered_map<std::string, int32_t> whole_pieces_;  // raw bytes to id, for ignore_merges

    // Pieces seen lately. A thread that finds the cache busy does without.
    struct Seen {
        std::string piece;
        std::vector<int32_t> ids;
    };
    struct Cache {
        std::mutex busy;
        std::vector<Seen> slots;
    };
    std::unique_ptr<Cache> cache_;
};

}  // namespace bifocal::tokenizer
