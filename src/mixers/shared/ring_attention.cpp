#include "mixers/shared/ring_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "ops/kernels/kernels.h"
#include "ops/vector.h"

namespace bifocal {
namespace {

constexpr int64_t kBlock = 16;  // query positions that are handled together
// Score rows of a block beyond this are handled a few queries at a time.
constexpr int64_t kMaxScores = 1 << 20;

// Columns of one query: its heads, rounded up where one kernel call is cheaper than two.
int64_t columns_of(int64_t group) {
    return group % 4 == 3 ? group + 1 : group;
}

int64_t align16(int64_t n) {
    return (n + 15) / 16 * 16;
}

// Calls f(first, n) for runs of columns in sizes that the tile kernels have.
template <class F>
void for_each_group(int64_t n_columns, F f) {
    for (int64_t first = 0; first < n_columns;) {
        int size = 1;
        for (const int candidate : ops::kGroupSizes) {
            if (n_columns - first >= candidate) {
                size = candidate;
                break;
            }
        }
        f(first, size);
        first += size;
    }
}

int64_t queries_at_once(const RingAttention& a, int64_t n_tokens) {
    const int64_t row = columns_of(a.group) * align16(a.plan.slots());
    return std::clamp<int64_t>(kMaxScores / row, 1, std::min(kBlock, n_tokens));
}

// Up to 16 queries at positions [begin, end) inside one aligned block.
class Block {
  public:
    Block(const RingAttention& attention, KvRing& ring, const RingAttention::Io& io, int64_t pos,
          int64_t begin, int64_t end, std::span<float> scratch)
        : a_(attention),
          ring_(ring),
          io_(io),
          pos_(pos),
          begin_(begin),
          n_queries_(end - begin),
          per_query_(columns_of(a_.group)),
          columns_(n_queries_ * per_query_),
          tile_(ring.dtype == DType::f32 ? ops::kernels().f32_tile : ops::kernels().bf16_tile) {
        const int64_t block = begin / kBlock * kBlock;
        used_panels_ = (a_.plan.filled(block + kBlock) + kPanelSlots - 1) / kPanelSlots;
        find_hot(block);
        row_ = used_panels_ * kPanelSlots;
        float* next = scratch.data();
        const auto take = [&](int64_t n) {
            float* data = next;
            next += n;
            return data;
        };
        queries_ = take(a_.head_dim * columns_);
        scores_ = take(columns_ * row_);
        weights_ = take(ops::kMaxGroup * row_);
        sums_ = take(columns_ * ring_.value_panels() * 16);
        few_ = take(std::max(a_.head_dim, kPanelSlots) * per_query_);
        inverse_ = take(columns_);
        BIFOCAL_CHECK(next <= scratch.data() + scratch.size(), "scratch of {} floats is too small",
                      scratch.size());
    }

    void run() {
        pack_queries();
        score_cold();
        for (int64_t i = 0; i < n_queries_; ++i) score_hot(i);
        for (int64_t i = 0; i < n_queries_; ++i) softmax(i);
        sum_cold();
        for (int64_t i = 0; i < n_queries_; ++i) sum_hot(i);
        write_out();
    }

  private:
    struct Range {
        int64_t begin, end;  // panels
    };

    // The hot panels as at most two ranges, upwards. The block's tokens fill consecutive slots,
    // with at most one step back from the ring's last slot to its first; a ring shorter than the
    // block is hot as a whole.
    void find_hot(int64_t block) {
        const RingPlan& plan = a_.plan;
        const auto add = [&](int64_t first_slot, int64_t last_slot) {
            hot_[n_hot_++] = {first_slot / kPanelSlots, last_slot / kPanelSlots + 1};
        };
        const int64_t last = block + kBlock - 1;
        if (last < plan.slots()) {
            add(block, last);
        } else if (plan.turning() < kBlock) {
            add(std::min(block, plan.sink_tokens), plan.slots() - 1);
        } else if (plan.slot(block) <= plan.slot(last)) {
            add(plan.slot(block), plan.slot(last));
        } else {
            add(plan.sink_tokens, plan.slot(last));
            add(plan.slot(block), plan.slots() - 1);
            if (hot_[1].begin <= hot_[0].end) {  // they touch
                hot_[0].end = std::max(hot_[0].end, hot_[1].end);
                n_hot_ = 1;
            }
        }
        for (int i = 0; i < n_hot_; ++i) hot_[i].end = std::min(hot_[i].end, used_panels_);
        int64_t from = 0;
        for (int i = 0; i < n_hot_; ++i) {
            if (hot_[i].begin > from) cold_[n_cold_++] = {from, hot_[i].begin};
            from = hot_[i].end;
        }
        if (from < used_panels_) cold_[n_cold_++] = {from, used_panels_};
    }

    int64_t token(int64_t query) const { return begin_ + query; }        // absolute position
    int64_t row_of(int64_t query) const { return token(query) - pos_; }  // in the chunk
    float* score_row(int64_t query, int64_t head) const {
        return scores_ + (query * per_query_ + head) * row_;
    }

    // few_: heads [c, c + n) of one query as [D, n]; columns past the group are zero.
    void pack_few(const View<const float, 3>& q, int64_t query, int64_t c, int n) const {
        for (int64_t h = 0; h < n; ++h) {
            for (int64_t d = 0; d < a_.head_dim; ++d) {
                few_[d * n + h] = c + h < a_.group ? a_.scale * q(row_of(query), c + h, d) : 0.0f;
            }
        }
    }

    // queries_: for each run of columns [D, size], runs one after the other.
    void pack_queries() {
        for (int64_t i = 0; i < n_queries_; ++i) {
            for (int64_t h = 0; h < per_query_; ++h) {
                const int64_t column = i * per_query_ + h;
                float* run = nullptr;
                int64_t size = 0, place = 0;
                for_each_group(columns_, [&](int64_t first, int n) {
                    if (column >= first && column < first + n) {
                        run = queries_ + first * a_.head_dim;
                        size = n;
                        place = column - first;
                    }
                });
                for (int64_t d = 0; d < a_.head_dim; ++d) {
                    run[d * size + place] = h < a_.group ? a_.scale * io_.q(row_of(i), h, d) : 0.0f;
                }
            }
        }
    }

    // Scores of one panel times n columns: packed is [D, n]; column j goes to score row first + j.
    void score_panel(int64_t panel, const float* packed, int64_t first, int n) {
        alignas(64) float tile[ops::kMaxGroup * 16] = {};
        tile_(ring_.key_panel(panel), a_.head_dim, packed, n, tile);
        for (int j = 0; j < n; ++j) {
            std::copy_n(tile + 16 * j, 16, scores_ + (first + j) * row_ + panel * kPanelSlots);
        }
    }

    void score_cold() {
        for (int r = 0; r < n_cold_; ++r) {
            for (int64_t panel = cold_[r].begin; panel < cold_[r].end; ++panel) {
                for_each_group(columns_, [&](int64_t first, int n) {
                    score_panel(panel, queries_ + first * a_.head_dim, first, n);
                });
            }
        }
    }

    void score_hot(int64_t query) {
        ring_.write_key(a_.plan.slot(token(query)), io_.k.row(row_of(query)));
        const int64_t first = query * per_query_;
        for_each_group(per_query_, [&](int64_t c, int n) {
            pack_few(io_.q, query, c, n);
            for (int r = 0; r < n_hot_; ++r) {
                for (int64_t panel = hot_[r].begin; panel < hot_[r].end; ++panel) {
                    score_panel(panel, few_, first + c, n);
                }
            }
        });
        if (a_.has_sink_query) score_sinks(query);
    }

    // Replaces the scores of sink slots by those of the sink query, as cache positions want.
    void score_sinks(int64_t query) {
        const int64_t n_sinks = std::min(a_.plan.sink_tokens, token(query) + 1);
        for_each_group(per_query_, [&](int64_t c, int n) {
            pack_few(io_.sink_q, query, c, n);
            for (int64_t panel = 0; panel * kPanelSlots < n_sinks; ++panel) {
                alignas(64) float tile[ops::kMaxGroup * 16] = {};
                tile_(ring_.key_panel(panel), a_.head_dim, few_, n, tile);
                const int64_t slots = std::min(kPanelSlots, n_sinks - panel * kPanelSlots);
                for (int j = 0; j < n; ++j) {
                    std::copy_n(
                        tile + 16 * j, slots,
                        scores_ + (query * per_query_ + c + j) * row_ + panel * kPanelSlots);
                }
            }
        });
    }

    // Score rows become weights e^(score - max), zero in slots that the query does not see.
    void softmax(int64_t query) {
        const int64_t t = token(query);
        const int64_t n = a_.plan.filled(t + 1);
        for (int64_t h = 0; h < per_query_; ++h) {
            float* row = score_row(query, h);
            if (h >= a_.group) {
                std::fill_n(row, row_, 0.0f);
                continue;
            }
            // Tokens kept only to be taken back to.
            const int64_t oldest = std::max(a_.plan.sink_tokens, t + 1 - a_.plan.turning());
            for (int64_t j = oldest; j <= t - a_.plan.window; ++j) {
                row[a_.plan.slot(j)] = -std::numeric_limits<float>::infinity();
            }
            float top = ops::max({row, static_cast<size_t>(n)});
            const bool has_logit = !a_.sink_logits.empty();
            if (has_logit) top = std::max(top, a_.sink_logits[h]);
            float sum = ops::exp_sum({row, static_cast<size_t>(n)}, top);
            if (has_logit) sum += std::exp(a_.sink_logits[h] - top);
            std::fill(row + n, row + row_, 0.0f);
            inverse_[query * per_query_ + h] = 1.0f / sum;
        }
    }

    // sums_: for each run of columns [value panels, size, 16], runs one after the other.
    void sum_cold() {
        const int64_t dims = ring_.value_panels() * 16;
        std::fill_n(sums_, columns_ * dims, 0.0f);
        for_each_group(columns_, [&](int64_t first, int n) {
            for (int r = 0; r < n_cold_; ++r) {
                const int64_t slot0 = cold_[r].begin * kPanelSlots;
                const int64_t n_slots = (cold_[r].end - cold_[r].begin) * kPanelSlots;
                for (int j = 0; j < n; ++j) {
                    const float* row = scores_ + (first + j) * row_ + slot0;
                    for (int64_t s = 0; s < n_slots; ++s) weights_[s * n + j] = row[s];
                }
                for (int64_t p = 0; p < ring_.value_panels(); ++p) {
                    tile_(ring_.value_panel(p, cold_[r].begin), n_slots, weights_, n,
                          sums_ + first * dims + p * n * 16);
                }
            }
        });
    }

    void sum_hot(int64_t query) {
        ring_.write_value(a_.plan.slot(token(query)), io_.v.row(row_of(query)));
        const int64_t dims = ring_.value_panels() * 16;
        for (int64_t h = 0; h < a_.group; ++h) {
            const int64_t column = query * per_query_ + h;
            const float* row = scores_ + column * row_;
            float* sum = nullptr;
            int64_t step = 0;
            for_each_group(columns_, [&](int64_t first, int n) {
                if (column >= first && column < first + n) {
                    sum = sums_ + first * dims + (column - first) * 16;
                    step = n * 16;
                }
            });
            for (int r = 0; r < n_hot_; ++r) {
                for (int64_t panel = hot_[r].begin; panel < hot_[r].end; ++panel) {
                    for (int64_t p = 0; p < ring_.value_panels(); ++p) {
                        tile_(ring_.value_panel(p, panel), kPanelSlots, row + panel * kPanelSlots,
                              1, sum + p * step);
                    }
                }
            }
        }
    }

    void write_out() {
        const int64_t dims = ring_.value_panels() * 16;
        for_each_group(columns_, [&](int64_t first, int n) {
            for (int j = 0; j < n; ++j) {
                const int64_t query = (first + j) / per_query_;
                const int64_t h = (first + j) % per_query_;
                if (h >= a_.group) continue;
                const float* sum = sums_ + first * dims + j * 16;
                for (int64_t d = 0; d < a_.head_dim; ++d) {
                    io_.out(row_of(query), h, d) =
                        inverse_[first + j] * sum[d / 16 * n * 16 + d % 16];
                }
            }
        });
    }

    const RingAttention& a_;
    KvRing& ring_;
    const RingAttention::Io& io_;
    int64_t pos_;    // of the chunk's first token
    int64_t begin_;  // of this block's first query
    int64_t n_queries_;
    int64_t per_query_;  // columns of a query
    int64_t columns_;
    ops::FloatTile tile_;
    int64_t used_panels_ = 0;
    int64_t row_ = 0;  // length of a score row
    Range hot_[2] = {}, cold_[3] = {};
    int n_hot_ = 0, n_cold_ = 0;
    float *queries_, *scores_, *weights_, *sums_, *few_, *inverse_;
};

}  // namespace

int64_t RingAttention::scratch_floats(int64_t n_tokens) const {
    const int64_t columns = queries_at_once(*this, n_tokens) * columns_of(group);
    const int64_t row = align16(plan.slots());
    return columns * (head_dim + row + align16(head_dim) + 1) + ops::kMaxGroup * row +
           std::max(head_dim, kPanelSlots) * columns_of(group);
}

void RingAttention::run(KvRing& ring, int64_t pos, const Io& io, std::span<float> scratch) const {
    const int64_t n_tokens = io.q.shape[0];
    const int64_t step = queries_at_once(*this, n_tokens);
    for (int64_t t = pos; t < pos + n_tokens;) {
        const int64_t end = std::min({pos + n_tokens, (t / kBlock + 1) * kBlock, t + step});
        Block(*this, ring, io, pos, t, end, scratch).run();
        t = end;
    }
}

}  // namespace bifocal
