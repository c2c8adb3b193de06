// Symbols, merging, cache.
#include "formats/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "core/check.h"
#include "formats/tokenizer/byte_map.h"
#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

constexpr size_t kCacheSlots = 1 << 14;
constexpr size_t kMaxCachedPiece = 255;
constexpr std::string_view kMarker = "\xE2\x96\x81";  // U+2581, a space in SentencePiece

struct Symbol {
    int32_t id;  // -1 once it was merged into its left neighbour
    int32_t previous, next;
};

// Pairs waiting to be merged, as rank << 32 | position of the left symbol. A pair may have changed
// since it was queued; the taker checks.
class Queue {
  public:
    explicit Queue(std::vector<uint64_t> entries) : heap_({}, std::move(entries)) {}
    bool empty() const { return heap_.empty(); }
    void push(int32_t rank, int32_t position) { heap_.push(key(rank, position)); }
    uint64_t pop() {
        const uint64_t top = heap_.top();
        heap_.pop();
        return top;
    }
    static uint64_t key(int32_t rank, int32_t position) {
        return uint64_t{static_cast<uint32_t>(rank)} << 32 | static_cast<uint32_t>(position);
    }

  private:
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap_;
};

void merge_all(const MergeTable& merges, std::vector<int32_t>& ids) {
    const auto count = static_cast<int32_t>(ids.size());
    std::vector<uint64_t> pairs;
    for (int32_t i = 0; i + 1 < count; ++i) {
        if (const Merge* m = merges.find(ids[i], ids[i + 1]))
            pairs.push_back(Queue::key(m->rank, i));
    }
    if (pairs.empty()) return;
    std::vector<Symbol> symbols(count);
    for (int32_t i = 0; i < count; ++i) symbols[i] = {ids[i], i - 1, i + 1 < count ? i + 1 : -1};
    Queue queue(std::move(pairs));
    while (!queue.empty()) {
        const uint64_t top = queue.pop();
        const auto at = static_cast<int32_t>(top & 0xFFFFFFFFu);
        const auto rank = static_cast<int32_t>(top >> 32);
        Symbol& left = symbols[at];
        if (left.id < 0 || left.next < 0) continue;
        Symbol& right = symbols[left.next];
        const Merge* merge = merges.find(left.id, right.id);
        if (merge == nullptr || merge->rank != rank) continue;
        left.id = merge->id;
        right.id = -1;
        left.next = right.next;
        if (left.next >= 0) symbols[left.next].previous = at;
        if (left.previous >= 0) {
            const Merge* m = merges.find(symbols[left.previous].id, left.id);
            if (m != nullptr) queue.push(m->rank, left.previous);
        }
        if (left.next >= 0) {
            const Merge* m = merges.find(left.id, symbols[left.next].id);
            if (m != nullptr) queue.push(m->rank, at);
        }
    }
    ids.clear();
    for (int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace

MergeTable::MergeTable(const std::vector<IdPairMerge>& merges) {
    const size_t size = std::bit_ceil(merges.size() * 2 + 2);
    slots_.assign(size, {kEmpty, {}});
    mask_ = size - 1;
    for (const IdPairMerge& m : merges) {
        const uint64_t key = key_of(m.left, m.right);
        size_t i = hash(key) & mask_;
        while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
        slots_[i] = {key, m.merge};
    }
}

Bpe::Bpe(const std::vector<std::string>& tokens, const std::vector<bool>& in_model,
         const std::vector<IdPairMerge>& merges, BpeOptions options, bool bytes)
    : merges_(merges), options_(options), bytes_(bytes), cache_(std::make_unique<Cache>()) {
    cache_->slots.resize(kCacheSlots);
    ids_.reserve(tokens.size());
    for (size_t id = 0; id < tokens.size(); ++id) {
        if (in_model[id]) ids_.emplace(tokens[id], static_cast<int32_t>(id));
    }
    for (int b = 0; b < 256; ++b) {
        const char byte = static_cast<char>(b);
        const std::string_view one =
            bytes ? mapped_byte(static_cast<uint8_t>(b)) : std::string_view(&byte, b < 128 ? 1 : 0);
        byte_ids_[b] = find(one).value_or(-1);
        fallback_ids_[b] = find(fmt::format("<0x{:02X}>", b)).value_or(-1);
    }
    if (bytes && options.ignore_merges) {
        whole_pieces_.reserve(tokens.size());
        for (const auto& [token, id] : ids_) {
            if (auto raw = from_mapped(token)) whole_pieces_.emplace(std::move(*raw), id);
        }
    }
    marker_breaks_ = !bytes && !options.ignore_merges && breaks_at_marker(tokens, merges);
}

// In SentencePiece vocabularies no token has a space marker behind another character, so nothing
// merges over such a border, and text can be cut there without changing a single id.
bool Bpe::breaks_at_marker(const std::vector<std::string>& tokens,
                           const std::vector<IdPairMerge>& merges) const {
    if (!find(kMarker)) return false;
    return std::none_of(merges.begin(), merges.end(), [&](const IdPairMerge& m) {
        return !tokens[m.left].ends_with(kMarker) && tokens[m.right].starts_with(kMarker);
    });
}

std::optional<int32_t> Bpe::find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

// A character that is no token: its bytes, the unknown token, or nothing. Unknown tokens wait for
// the next known character, so that neighbours can become one; byte tokens go past them, as in the
// reference.
void Bpe::add_missing(std::string_view character, std::vector<int32_t>& ids,
                      Unknown& unknown) const {
    if (options_.byte_fallback) {
        const bool all = std::all_of(character.begin(), character.end(), [&](char c) {
            return fallback_ids_[static_cast<uint8_t>(c)] >= 0;
        });
        if (all) {
            for (const char c : character) ids.push_back(fallback_ids_[static_cast<uint8_t>(c)]);
            return;
        }
    }
    if (!options_.unk) return;
    if (unknown.pending && !options_.fuse_unk) ids.push_back(*options_.unk);
    unknown.pending = true;
}

void Bpe::initial_symbols(std::string_view piece, std::vector<int32_t>& ids) const {
    Unknown unknown;
    const auto add = [&](int32_t id) {
        if (unknown.pending) ids.push_back(*options_.unk);
        unknown.pending = false;
        ids.push_back(id);
    };
    for (size_t at = 0; at < piece.size();) {
        const auto byte = static_cast<uint8_t>(piece[at]);
        const int32_t single = bytes_ || byte < 0x80 ? byte_ids_[byte] : -1;
        const int length = bytes_ ? 1 : unicode::decode(piece, at).bytes;
        if (single >= 0) {
            add(single);
        } else if (bytes_ || byte < 0x80) {
            add_missing(bytes_ ? mapped_byte(byte) : piece.substr(at, 1), ids, unknown);
        } else if (const auto id = find(piece.substr(at, length))) {
            add(*id);
        } else {
            add_missing(piece.substr(at, length), ids, unknown);
        }
        at += length;
    }
    if (unknown.pending) ids.push_back(*options_.unk);
}

void Bpe::encode_new(std::string_view piece, std::vector<int32_t>& ids) const {
    if (options_.ignore_merges) {
        if (bytes_) {
            const auto found = whole_pieces_.find(std::string(piece));
            if (found != whole_pieces_.end()) return ids.push_back(found->second);
        } else if (const auto id = find(piece)) {
            return ids.push_back(*id);
        }
    }
    initial_symbols(piece, ids);
    merge_all(merges_, ids);
}

void Bpe::encode_part(std::string_view piece, std::vector<int32_t>& ids) const {
    std::vector<int32_t> own;
    std::unique_lock lock(cache_->busy, std::defer_lock);
    if (piece.size() > kMaxCachedPiece || !lock.try_lock()) {
        encode_new(piece, own);
        ids.insert(ids.end(), own.begin(), own.end());
        return;
    }
    Seen& slot = cache_->slots[std::hash<std::string_view>{}(piece) & (kCacheSlots - 1)];
    if (slot.piece != piece) {
        encode_new(piece, own);
        slot.piece = piece;
        slot.ids = std::move(own);
    }
    ids.insert(ids.end(), slot.ids.begin(), slot.ids.end());
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
    BIFOCAL_CHECK(piece.size() < size_t{1} << 31, "piece of {} bytes", piece.size());
    if (!marker_breaks_) return encode_part(piece, ids);
    while (!piece.empty()) {
        size_t end = 0;
        while (piece.substr(end).starts_with(kMarker)) end += kMarker.size();
        end = std::min(piece.find(kMarker, end), piece.size());
        encode_part(piece.substr(0, end), ids);
        piece.remove_prefix(end);
    }
}

}  // namespace bifocal::tokenizer
