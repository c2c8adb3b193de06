#include "mixers/shared/ring_attention.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/buffer.h"
#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal {
namespace {

constexpr int64_t kColumns = ops::kMaxGroup;
constexpr int64_t kPanel = KvSlots::kPanel;
constexpr int64_t kBlockPanels = kSlotBlock / kPanel;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The smallest number of columns that the tile kernels have and that holds n.
int64_t padded_columns(int64_t n) {
    int64_t columns = kColumns;
    for (const int size : ops::kGroupSizes) {
        if (size >= n) columns = size;
    }
    return columns;
}

// Scores of one block as the tile kernels leave them: [panel, C, 16].
struct alignas(kAlignment) ScoreTile {
    float values[kBlockPanels * kColumns * kPanel];
};

// One piece: scratch and the steps of a block.
class Piece {
  public:
    Piece(const RingAttention& attention, int64_t turn, int64_t first_column, int64_t n)
        : a_(attention),
          stage_(attention.slots->stage),
          plan_(stage_.plan),
          D_(attention.slots->ring.head_dim),
          V_(attention.slots->ring.value_dim),
          turn_(turn),
          n_(n),
          C_(padded_columns(n)),
          kernels_(ops::kernels()),
          tile_(attention.slots->ring.dtype == DType::f32 ? kernels_.f32_tile
                                                          : kernels_.bf16_tile) {
        for (int64_t c = 0; c < n_; ++c) {
            const int64_t column = first_column + c;
            const int64_t token = stage_.turn_begin(turn) + column / a_.group;
            Column& at = columns_[c];
            at.head = column % a_.group;
            at.token = token - stage_.begin;
            at.row = at.token * a_.stride + at.head * D_;
            at.sinks = plan_.sinks_seen(token);
            at.own = plan_.own_turn_seen(token);
            at.last = plan_.last_turn_seen(token);
            const float logit = a_.sink_logits.empty() ? -kInfinity : a_.sink_logits[at.head];
            at.max = logit;
            at.sum = logit == -kInfinity ? 0.0f : 1.0f;
        }
        pack(a_.q, q_);
        if (a_.sink_q != nullptr) pack(a_.sink_q, sink_q_);
        std::memset(out_, 0, static_cast<size_t>(value_panels() * C_ * kPanel) * sizeof(float));
    }

    void run() {
        for (int64_t block = 0; block * kSlotBlock < plan_.slots(); ++block) visit(block);
        write_out();
    }

  private:
    struct Column {
        int64_t head;
        int64_t row;                 // where its query and output lie
        int64_t token;               // of the chunk
        SlotRange sinks, own, last;  // slots seen
        float max, sum;              // of what it has seen so far
    };

    int64_t value_panels() const { return (V_ + kPanel - 1) / kPanel; }

    // [D, C], zeros in the columns past n.
    void pack(const float* rows, float* packed) const {
        for (int64_t c = 0; c < C_; ++c) {
            const float* row = c < n_ ? rows + columns_[c].row : nullptr;
            for (int64_t d = 0; d < D_; ++d) packed[d * C_ + c] = row ? row[d] : 0.0f;
        }
    }

    // Slots of a block that some column sees, relative to the block.
    struct Seen {
        SlotRange sinks, own, last;
    };
    static void join(SlotRange& all, SlotRange one) {
        if (one.empty()) return;
        all = all.empty() ? one
                          : SlotRange{std::min(all.begin, one.begin), std::max(all.end, one.end)};
    }
    static SlotRange in_block(SlotRange range, int64_t begin, int64_t end) {
        range = range.within(begin, end);
        return {range.begin - begin, range.end - begin};
    }

    void visit(int64_t block) {
        const int64_t begin = block * kSlotBlock;
        const int64_t end = std::min(begin + kSlotBlock, plan_.slots());
        Seen all;
        for (int64_t c = 0; c < n_; ++c) {
            Seen& seen = seen_[c];
            seen = {in_block(columns_[c].sinks, begin, end), in_block(columns_[c].own, begin, end),
                    in_block(columns_[c].last, begin, end)};
            join(all.sinks, seen.sinks);
            join(all.own, seen.own);
            join(all.last, seen.last);
        }
        SlotRange own = all.own;
        join(own, all.sinks);
        if (own.empty() && all.last.empty()) return;

        const StagedSlots::Place here = a_.slots->find(turn_, block);
        const StagedSlots::Place before = a_.slots->find(turn_ - 1, block);
        const bool same = here == before;
        SlotRange scored = own;
        if (same) join(scored, all.last);
        score(here, scored, q_, own_scores_);
        if (!same) score(before, all.last, q_, last_scores_);
        const bool moved_sinks = a_.sink_q != nullptr && !all.sinks.empty();
        if (moved_sinks) score(here, all.sinks, sink_q_, sink_scores_);

        const int64_t width = end - begin;
        for (int64_t c = 0; c < n_; ++c) {
            const Seen& seen = seen_[c];
            float* row = rows_ + c * kSlotBlock;
            if (seen.own.begin > 0 || seen.own.end < width) std::fill_n(row, width, -kInfinity);
            gather(own_scores_, c, seen.own, row);
            gather(same ? own_scores_ : last_scores_, c, seen.last, row);
            gather(moved_sinks ? sink_scores_ : own_scores_, c, seen.sinks, row);
            soften(c, row, width);
        }
        add_values(here, own, &Seen::own, &Seen::sinks);
        add_values(before, all.last, &Seen::last, nullptr);
    }

    // Scores of the panels that hold `range`.
    void score(const StagedSlots::Place& place, SlotRange range, const float* q, ScoreTile& out) {
        if (range.empty()) return;
        const int64_t first = range.begin / kPanel, last = (range.end - 1) / kPanel;
        std::memset(out.values + first * C_ * kPanel, 0,
                    static_cast<size_t>((last - first + 1) * C_ * kPanel) * sizeof(float));
        for (int64_t p = first; p <= last; ++p) {
            tile_(place.slots->key_panel(place.first / kPanel + p, spare_), D_, q,
                  static_cast<int>(C_), out.values + p * C_ * kPanel);
        }
    }

    // Copies one column's scores to where they stand in its row.
    void gather(const ScoreTile& tile, int64_t c, SlotRange range, float* row) const {
        for (int64_t s = range.begin; s < range.end;) {
            const int64_t panel = s / kPanel;
            const int64_t end = std::min(range.end, (panel + 1) * kPanel);
            std::memcpy(row + s, tile.values + (panel * C_ + c) * kPanel + s % kPanel,
                        static_cast<size_t>(end - s) * sizeof(float));
            s = end;
        }
    }

    // Scores become weights e^(score - max); what was summed under a smaller maximum shrinks.
    void soften(int64_t c, float* row, int64_t width) {
        Column& column = columns_[c];
        const float max = std::max(column.max, kernels_.max(row, width));
        if (max == -kInfinity) {  // nothing seen yet
            std::fill_n(row, width, 0.0f);
            return;
        }
        if (max > column.max) {
            const float shrink = std::exp(column.max - max);
            column.max = max;
            column.sum *= shrink;
            for (int64_t p = 0; p < value_panels(); ++p) {
                float* out = out_ + (p * C_ + c) * kPanel;
                for (int64_t d = 0; d < kPanel; ++d) out[d] *= shrink;
            }
        }
        column.sum += kernels_.exp_sum(row, width, max);
    }

    // out_ += weights · values for the slots `range` of a block, of which each column takes its
    // own.
    void add_values(const StagedSlots::Place& place, SlotRange range, SlotRange Seen::*first,
                    SlotRange Seen::*second) {
        if (range.empty()) return;
        // Where the range begins does not matter to the bits: the kernels sum every second row
        // apart, and a row without weight adds nothing.
        const int64_t n = range.end - range.begin;
        // [n, C]
        float* weights = weights_ + range.begin * C_;
        bool whole = n_ == C_;
        for (int64_t c = 0; c < n_; ++c) {
            const SlotRange& seen = seen_[c].*first;
            whole = whole && seen.begin <= range.begin && seen.end >= range.end;
        }
        if (!whole) std::memset(weights, 0, static_cast<size_t>(n * C_) * sizeof(float));
        for (int64_t c = 0; c < n_; ++c) {
            const float* row = rows_ + c * kSlotBlock;
            const auto put = [&](SlotRange seen) {
                for (int64_t s = seen.begin; s < seen.end; ++s) weights_[s * C_ + c] = row[s];
            };
            put(seen_[c].*first);
            if (second != nullptr) put(seen_[c].*second);
        }
        for (int64_t p = 0; p < value_panels(); ++p) {
            tile_(place.slots->value_rows(p, place.first + range.begin, n, spare_), n, weights,
                  static_cast<int>(C_), out_ + p * C_ * kPanel);
        }
    }

    void write_out() const {
        for (int64_t c = 0; c < n_; ++c) {
            if (a_.sums != nullptr)
                a_.sums[columns_[c].token * a_.sums_stride + columns_[c].head] = columns_[c].sum;
            const float scale = 1.0f / columns_[c].sum;
            float* row = a_.out + columns_[c].row;
            for (int64_t d = 0; d < V_; ++d) {
                row[d] = scale * out_[(d / kPanel * C_ + c) * kPanel + d % kPanel];
            }
        }
    }

    const RingAttention& a_;
    const RingStage& stage_;
    const RingPlan& plan_;
    const int64_t D_, V_;  // of keys and of values
    const int64_t turn_;   // of the chunk's
    const int64_t n_;      // columns
    const int64_t C_;      // with those that pad
    const ops::KernelSet& kernels_;
    const ops::FloatTile tile_;
    Column columns_[kColumns];
    Seen seen_[kColumns];
    ScoreTile own_scores_, last_scores_, sink_scores_;
    alignas(kAlignment) float q_[kMaxHeadDim * kColumns];       // [D, C]
    alignas(kAlignment) float sink_q_[kMaxHeadDim * kColumns];  // [D, C]
    alignas(kAlignment) float out_[kMaxHeadDim * kColumns];     // [value panels, C, 16]
    alignas(kAlignment) float rows_[kColumns * kSlotBlock];     // [C, 64] scores, then weights
    alignas(kAlignment) float weights_[kSlotBlock * kColumns];  // [64, C]
    alignas(kAlignment) std::byte spare_[kMaxHeadDim * kPanel * sizeof(float)];
};

}  // namespace

int64_t RingAttention::n_pieces() const {
    int64_t n = 0;
    for (int64_t i = 0; i < slots->stage.n_turns(); ++i) {
        const int64_t columns = (slots->stage.turn_end(i) - slots->stage.turn_begin(i)) * group;
        n += (columns + kColumns - 1) / kColumns;
    }
    return n;
}

void RingAttention::run(int64_t piece) const {
    for (int64_t i = 0; i < slots->stage.n_turns(); ++i) {
        const int64_t columns = (slots->stage.turn_end(i) - slots->stage.turn_begin(i)) * group;
        const int64_t pieces = (columns + kColumns - 1) / kColumns;
        if (piece < pieces) {
            const int64_t first = piece * kColumns;
            Piece(*this, i, first, std::min(kColumns, columns - first)).run();
            return;
        }
        piece -= pieces;
    }
}

}  // namespace bifocal
