// The chunk form: L tokens at once by matrix products (README.md, eq. 6-10). Scalar decays weigh a
// whole matrix of scores; decays by channel go into the rows and keys of the product, 16 rows at a
// time, so that no exponent gets large.
#include <cstring>

#include "mixers/linear/recurrence_parts.h"
#include "ops/vector.h"

namespace bifocal::linear {
namespace {

constexpr int64_t kBlock = 16;
// Keys inside a block grow by at most e^-this, far inside the range of a float. Chunks that forget
// faster go token by token.
constexpr float kMildDecay = -60;

bool is_mild(const Recurrence& rec, const Tokens<float>& x) {
    if (!rec.decays_by_channel) return true;
    for (int64_t first = 0; first < x.n; first += kBlock) {
        for (int64_t c = 0; c < rec.key_dim; ++c) {
            float sum = 0;
            for (int64_t t = first; t < std::min(x.n, first + kBlock); ++t)
                sum += x.g[t * x.g_row + c];
            if (!(sum >= kMildDecay)) return false;
        }
    }
    return true;
}

// Readers of the keys: the query heads, and with the delta rule the keys themselves.
int64_t reader_count(const Recurrence& rec) {
    return rec.n_queries + (rec.write == Write::delta ? 1 : 0);
}

class ChunkRun {
  public:
    ChunkRun(const Recurrence& rec, const Tokens<float>& x, const State<float>& state,
             std::span<float> scratch)
        : rec_(rec),
          x_(x),
          state_(state),
          K_(rec.key_dim),
          V_(rec.value_dim),
          L_(x.n),
          width_(rec.decays_by_channel ? K_ : 1) {
        Scratch memory(scratch);
        b_ = reinterpret_cast<double*>(memory.take(2 * (kChunk + 1) * width_));
        scores_ = memory.take(reader_count(rec) * kChunk * kChunk);
        weights_ = memory.take(kChunk * kChunk);
        keys_t_ = memory.take(kChunk * K_);
        rows_ = memory.take(kChunk * K_);
        exps_ = memory.take(kChunk * K_);
        lost_ = memory.take(kChunk * K_);
        u_ = memory.take(kChunk * V_);
        m_ = memory.take(kChunk);
        write_ = memory.take(kChunk);
    }

    void run() {
        sum_decays();
        if (rec_.decays_by_channel) {
            for (int64_t first = 0; first < L_; first += kBlock) score_by_channel(first);
        } else {
            score_by_scalar();
        }
        find_written();
        for (int64_t i = 0; i < rec_.n_queries; ++i) read(i);
        update_state();
    }

  private:
    // Sums of log decays before token t; in double, because their differences count.
    double b(int64_t t, int64_t c) const { return b_[t * width_ + c]; }
    float* scores(int64_t reader) const { return scores_ + reader * kChunk * kChunk; }
    const float* reader_row(int64_t reader, int64_t r) const {
        return reader < rec_.n_queries ? x_.q + r * x_.q_row + reader * K_ : x_.k + r * x_.k_row;
    }
    // How many tokens before its own a reader's decays end: RWKV-6 reads before it decays.
    int64_t shift(int64_t reader) const {
        return rec_.has_bonus && reader < rec_.n_queries ? 1 : 0;
    }

    void sum_decays() {
        std::fill(b_, b_ + width_, 0.0);
        for (int64_t t = 0; t < L_; ++t)
            for (int64_t c = 0; c < width_; ++c)
                b_[(t + 1) * width_ + c] = b(t, c) + static_cast<double>(x_.g[t * x_.g_row + c]);
        if (!rec_.has_stabiliser()) return;
        float m = *state_.m;
        for (int64_t t = 0; t < L_; ++t)
            m_[t] = m = std::max(x_.g[t * x_.g_row] + m, write_strength(rec_, x_, t));
    }

    // exps[j, c] = e^(b of token from + j, against b of token `to`); signs by `up`. What the
    // exponents lose by becoming floats is put back, as a large one loses many ulps of its power.
    void find_exps(int64_t from, int64_t n, int64_t to, bool up) {
        const double sign = up ? -1 : 1;
        for (int64_t j = 0; j < n; ++j)
            for (int64_t c = 0; c < K_; ++c) {
                const double exponent = sign * (b(from + j, c) - b(to, c));
                const auto rounded = static_cast<float>(exponent);
                exps_[j * K_ + c] = rounded;
                lost_[j * K_ + c] = static_cast<float>(exponent - static_cast<double>(rounded));
            }
        ops::exp_sum({exps_, static_cast<size_t>(n * K_)}, 0);
        for (int64_t i = 0; i < n * K_; ++i) exps_[i] += exps_[i] * lost_[i];
    }
    // y = x ∘ exps[j], K of them
    void times_exps(const float* x, int64_t j, float* y) const {
        ops::kernels().norm_scale(x, 1, exps_ + j * K_, y, K_);
    }

    // scores[r, i] = reader_r·k_i, then times e^(b_r - b_i + w_i - m_r).
    void score_by_scalar() {
        for (int64_t i = 0; i < L_; ++i)
            for (int64_t c = 0; c < K_; ++c) keys_t_[c * kChunk + i] = x_.k[i * x_.k_row + c];
        for (int64_t r = 0; r < L_; ++r) {
            float* const row = weights_ + r * kChunk;
            for (int64_t i = 0; i <= r; ++i) {
                double exponent = b(r + 1, 0) - b(i + 1, 0);
                if (rec_.has_stabiliser())
                    exponent += static_cast<double>(write_strength(rec_, x_, i)) -
                                static_cast<double>(m_[r]);
                row[i] = static_cast<float>(exponent);
            }
            ops::exp_sum({row, static_cast<size_t>(r + 1)}, 0);
        }
        for (int64_t reader = 0; reader < reader_count(rec_); ++reader) {
            const int64_t a_row = reader < rec_.n_queries ? x_.q_row : x_.k_row;
            for (int64_t first = 0; first < L_; first += kBlock) {
                const int64_t n = std::min(kBlock, L_ - first);
                float* const out = scores(reader) + first * kChunk;
                multiply({n, first + n, K_, reader_row(reader, first), a_row, 1, keys_t_, kChunk,
                          out, kChunk, false});
                for (int64_t r = 0; r < n; ++r) {
                    float* const row = out + r * kChunk;
                    ops::kernels().norm_scale(row, 1, weights_ + (first + r) * kChunk, row,
                                              first + r + 1);
                }
            }
        }
    }

    // The scores of rows [first, first + 16): readers decayed from the block's beginning on, keys
    // up to it; keys inside the block are taken back to its beginning.
    void score_by_channel(int64_t first) {
        const int64_t n = std::min(kBlock, L_ - first);
        const int64_t n_keys = first + n;
        find_exps(1, n_keys, first, true);
        for (int64_t i = 0; i < n_keys; ++i) {
            times_exps(x_.k + i * x_.k_row, i, rows_);
            for (int64_t c = 0; c < K_; ++c) keys_t_[c * kChunk + i] = rows_[c];
        }
        for (int64_t reader = 0; reader < reader_count(rec_); ++reader) {
            float* const out = scores(reader) + first * kChunk;
            find_exps(first + 1 - shift(reader), n, first, false);
            for (int64_t r = 0; r < n; ++r)
                times_exps(reader_row(reader, first + r), r, rows_ + r * K_);
            multiply({n, n_keys, K_, rows_, K_, 1, keys_t_, kChunk, out, kChunk, false});
        }
    }

    // rows[r] = what the reader takes from the state before the chunk, eq. (7).
    void find_reads(int64_t reader, float factor) {
        const int64_t earlier = shift(reader);
        if (rec_.decays_by_channel) find_exps(1 - earlier, L_, 0, false);
        for (int64_t r = 0; r < L_; ++r) {
            float* const row = rows_ + r * K_;
            if (rec_.decays_by_channel) {
                times_exps(reader_row(reader, r), r, row);
                ops::scale(factor, {row, static_cast<size_t>(K_)});
                continue;
            }
            double exponent = b(r + 1 - earlier, 0);
            if (rec_.has_stabiliser())
                exponent += static_cast<double>(*state_.m) - static_cast<double>(m_[r]);
            std::memcpy(row, reader_row(reader, r), static_cast<size_t>(K_) * sizeof(float));
            ops::scale(factor * static_cast<float>(std::exp(exponent)),
                       {row, static_cast<size_t>(K_)});
        }
    }

    // u[r]: what the tokens write; strengths that are exponents come later.
    void find_written() {
        for (int64_t r = 0; r < L_; ++r) {
            write_[r] = rec_.has_stabiliser() ? 1 : write_strength(rec_, x_, r);
            float* const u = u_ + r * V_;
            std::memcpy(u, x_.v + r * x_.v_row, static_cast<size_t>(V_) * sizeof(float));
            if (write_[r] != 1) ops::scale(write_[r], {u, static_cast<size_t>(V_)});
        }
        if (rec_.write == Write::delta) erase();
    }

    // eq. (10): u_r = w_r (v_r - what k_r recalls of the state and of u_0 .. u_{r-1}).
    void erase() {
        const int64_t keys = rec_.n_queries;  // the reader
        find_reads(keys, -1);
        for (int64_t r = 0; r < L_; ++r) {
            ops::scale(write_[r], {rows_ + r * K_, static_cast<size_t>(K_)});
            ops::scale(-write_[r], {scores(keys) + r * kChunk, static_cast<size_t>(r)});
        }
        multiply({L_, V_, K_, rows_, K_, 1, state_.s, V_, u_, V_, true});
        for (int64_t first = 0; first < L_; first += kBlock) {
            const int64_t n = std::min(kBlock, L_ - first);
            const float* const block = scores(keys) + first * kChunk;
            multiply({n, V_, first, block, kChunk, 1, u_, V_, u_ + first * V_, V_, true});
            for (int64_t r = 1; r < n; ++r)
                multiply({1, V_, r, block + r * kChunk + first, kChunk, 1, u_ + first * V_, V_,
                          u_ + (first + r) * V_, V_, true});
        }
    }

    // Outputs of one query head, eq. (8) and (4).
    void read(int64_t reader) {
        float* const own = scores(reader);
        float* const y = x_.y + reader * V_;
        if (rec_.has_bonus) {
            for (int64_t r = 0; r < L_; ++r) {
                const float* const q = reader_row(reader, r);
                float weight = 0;
                for (int64_t c = 0; c < K_; ++c)
                    weight += q[c] * x_.bonus[c] * x_.k[r * x_.k_row + c];
                own[r * kChunk + r] = weight;
            }
        }
        find_reads(reader, rec_.scale);
        multiply({L_, V_, K_, rows_, K_, 1, state_.s, V_, y, x_.y_row, false});
        for (int64_t first = 0; first < L_; first += kBlock) {
            const int64_t n = std::min(kBlock, L_ - first);
            for (int64_t r = first; r < first + n; ++r) {
                if (rec_.scale != 1)
                    ops::scale(rec_.scale, {own + r * kChunk, static_cast<size_t>(r + 1)});
                std::fill(own + r * kChunk + r + 1, own + r * kChunk + first + n, 0.0f);
            }
            multiply({n, V_, first + n, own + first * kChunk, kChunk, 1, u_, V_,
                      y + first * x_.y_row, x_.y_row, true});
        }
        if (!state_.n) return;
        for (int64_t r = 0; r < L_; ++r) {
            const float den = ops::dot({rows_ + r * K_, static_cast<size_t>(K_)}, state_.n) +
                              ops::dot({own + r * kChunk, static_cast<size_t>(r + 1)}, write_);
            const float by = divisor(rec_, x_, r, reader, den, rec_.has_stabiliser() ? m_[r] : 0);
            ops::scale(1 / by, {y + r * x_.y_row, static_cast<size_t>(V_)});
        }
    }

    // S = e^B S + sum of e^(B - b_r) k_r u_rᵀ, the same for n; eq. (9).
    void update_state() {
        const bool stabilised = rec_.has_stabiliser();
        const double m = stabilised ? static_cast<double>(m_[L_ - 1]) : 0;
        if (rec_.decays_by_channel) find_exps(1, L_, L_, true);
        for (int64_t r = 0; r < L_; ++r) {
            float* const row = rows_ + r * K_;
            if (rec_.decays_by_channel) {
                times_exps(x_.k + r * x_.k_row, r, row);
                continue;
            }
            double exponent = b(L_, 0) - b(r + 1, 0);
            if (stabilised) exponent += static_cast<double>(write_strength(rec_, x_, r)) - m;
            std::memcpy(row, x_.k + r * x_.k_row, static_cast<size_t>(K_) * sizeof(float));
            ops::scale(static_cast<float>(std::exp(exponent)), {row, static_cast<size_t>(K_)});
        }
        for (int64_t c = 0; c < K_; ++c) {
            double exponent = b(L_, rec_.decays_by_channel ? c : 0);
            if (stabilised) exponent += static_cast<double>(*state_.m) - m;
            const auto kept = static_cast<float>(std::exp(exponent));
            ops::scale(kept, {state_.s + c * V_, static_cast<size_t>(V_)});
            if (state_.n) state_.n[c] *= kept;
        }
        multiply({K_, V_, L_, rows_, 1, K_, u_, V_, state_.s, V_, true});
        if (state_.n) multiply({1, K_, L_, write_, kChunk, 1, rows_, K_, state_.n, K_, true});
        if (stabilised) *state_.m = m_[L_ - 1];
    }

    const Recurrence& rec_;
    const Tokens<float>& x_;
    const State<float>& state_;
    int64_t K_, V_, L_, width_;
    double* b_;       // [L + 1, width]
    float* scores_;   // [readers, kChunk, kChunk], the lower triangles
    float* weights_;  // [L, kChunk]
    float* keys_t_;   // [K, kChunk]
    float* rows_;     // [L, K]
    float* exps_;     // [L, K]
    float* lost_;     // [L, K]
    float* u_;        // [L, V]
    float* m_;        // [L]
    float* write_;    // [L]; 1 if strengths are exponents
};

}  // namespace

int64_t chunk_length(const Recurrence& rec) {
    return rec.key_dim < 32 ? kBlock : rec.key_dim < 64 ? 2 * kBlock : kChunk;
}

int64_t scratch_floats(const Recurrence& rec) {
    const int64_t K = rec.key_dim, V = rec.value_dim;
    const int64_t width = rec.decays_by_channel ? K : 1;
    return 2 * (kChunk + 1) * width + kChunk * ((reader_count(rec) + 1) * kChunk + 4 * K + V + 2);
}

void run_chunks(const Recurrence& rec, const Tokens<float>& tokens, const State<float>& state,
                std::span<float> scratch) {
    const int64_t length = chunk_length(rec);
    for (int64_t t = 0; t < tokens.n; t += length) {
        const Tokens<float> part = tokens.from(t).first(std::min(length, tokens.n - t));
        if (is_mild(rec, part)) {
            ChunkRun(rec, part, state, scratch).run();
        } else {
            run_recurrent(rec, part, state, scratch);
        }
    }
}

}  // namespace bifocal::linear
