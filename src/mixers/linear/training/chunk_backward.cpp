// The backward of a chunk by matrix products, for scalar decays and writes that only add
// (README.md, eq. 11-22). The forward of the chunk is found again on the way, one query head after
// the other.
#include <cmath>

#include "mixers/linear/training/recurrence.h"

namespace bifocal::linear {
namespace {

template <class R>
class ChunkBackward {
  public:
    explicit ChunkBackward(const ChunkCall<R>& call)
        : rec_(call.rec), x_(call.x), call_(call), K_(rec_.key_dim), V_(rec_.value_dim), L_(x_.n) {
        R* memory = call.scratch;
        const auto take = [&](int64_t n) {
            R* const begin = memory;
            memory += n;
            return begin;
        };
        const auto take_doubles = [&](int64_t n) { return reinterpret_cast<double*>(take(2 * n)); };
        b_ = take_doubles(kChunk + 1);
        dg_ = take_doubles(kChunk + 1);
        weights_ = take(kChunk * kChunk);
        shares_ = take(kChunk * kChunk);
        dscores_ = take(kChunk * kChunk);
        keys_ = take(kChunk * K_);
        keys_t_ = take(kChunk * K_);
        values_t_ = take(kChunk * V_);
        s_t_ = take(K_ * V_);
        reads_ = take(kChunk * K_);
        dkeys_ = take(kChunk * K_);
        rows_ = take(kChunk * K_);
        y_ = take(kChunk * V_);
        e_ = take(kChunk * V_);
        dvalues_ = take(kChunk * V_);
        m_ = take(kChunk);
        dden_ = take(kChunk);
        dm_ = take(kChunk);
    }
    static int64_t scratch(const Recurrence& rec) {
        const int64_t K = rec.key_dim, V = rec.value_dim;
        return 4 * (kChunk + 1) + kChunk * (3 * kChunk + 5 * K + 4 * V + 3) + K * V;
    }

    void run() {
        find_weights();
        std::fill_n(dm_, L_, R(0));
        write_back();
        for (int64_t i = 0; i < rec_.n_queries; ++i) read_back(i);
        finish();
    }

  private:
    double b(int64_t t) const { return b_[t]; }  // sum of log decays before token t
    R strength(int64_t t) const {
        if (x_.w) return x_.w[t * x_.w_row];
        return R(rec_.has_stabiliser() ? 0 : 1);
    }
    // The exponent of a strength; strengths that are factors are in keys_.
    double exponent(int64_t t) const {
        return rec_.has_stabiliser() ? static_cast<double>(strength(t)) : 0;
    }
    double m_in() const { return rec_.has_stabiliser() ? static_cast<double>(*call_.before.m) : 0; }
    double m(int64_t t) const { return rec_.has_stabiliser() ? static_cast<double>(m_[t]) : 0; }
    double dot(const R* a, const R* b, int64_t n) const {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i)
            sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        return sum;
    }
    // What the log decays [begin, end) are exponents of, times its gradient.
    void decays_weigh(int64_t begin, int64_t end, double what) {
        for (int64_t t = begin; t < end; ++t) dg_[t] += what;
    }
    void transpose(const R* from, int64_t from_row, int64_t n_rows, int64_t n_columns, R* to,
                   int64_t to_row) const {
        for (int64_t i = 0; i < n_rows; ++i)
            for (int64_t j = 0; j < n_columns; ++j) to[j * to_row + i] = from[i * from_row + j];
    }

    // weights[r, i] = e^(b_r - b_i + w_i - m_r) of eq. (8), 0 above the diagonal.
    void find_weights() {
        b_[0] = 0;
        R top = rec_.has_stabiliser() ? *call_.before.m : R(0);
        for (int64_t t = 0; t < L_; ++t) {
            const R g = x_.g[t * x_.g_row];
            b_[t + 1] = b_[t] + static_cast<double>(g);
            if (rec_.has_stabiliser()) m_[t] = top = std::max(g + top, strength(t));
            const R factor = rec_.has_stabiliser() ? R(1) : strength(t);
            for (int64_t c = 0; c < K_; ++c) keys_[t * K_ + c] = factor * x_.k[t * x_.k_row + c];
        }
        for (int64_t r = 0; r < L_; ++r)
            for (int64_t i = 0; i < L_; ++i)
                weights_[r * kChunk + i] =
                    i > r ? R(0)
                          : static_cast<R>(std::exp(b(r + 1) - b(i + 1) + exponent(i) - m(r)));
        transpose(keys_, K_, L_, K_, keys_t_, kChunk);
        transpose(x_.v, x_.v_row, L_, V_, values_t_, kChunk);
    }

    // What the tokens wrote into the state behind the chunk, eq. (9) backwards. Leaves dstate as
    // what comes of it at the state before the chunk.
    void write_back() {
        R* const ds = call_.dstate.s;
        R* const dn = call_.dstate.n;
        std::fill_n(dg_, L_, 0.0);
        transpose(ds, V_, K_, V_, s_t_, K_);
        multiply({L_, K_, V_, x_.v, x_.v_row, 1, s_t_, K_, dkeys_, K_, false});
        multiply({L_, V_, K_, keys_, K_, 1, ds, V_, dvalues_, V_, false});
        for (int64_t r = 0; r < L_; ++r) {
            const auto weight =
                static_cast<R>(std::exp(b(L_) - b(r + 1) + exponent(r) - m(L_ - 1)));
            for (int64_t c = 0; c < K_; ++c) {
                R& dkey = dkeys_[r * K_ + c];
                dkey = weight * (dn ? dkey + dn[c] : dkey);
            }
            for (int64_t j = 0; j < V_; ++j) dvalues_[r * V_ + j] *= weight;
            // All decays after r weigh what it wrote.
            decays_weigh(r + 1, L_, dot(keys_ + r * K_, dkeys_ + r * K_, K_));
        }
        const auto kept = static_cast<R>(std::exp(b(L_) + m_in() - m(L_ - 1)));
        for (int64_t i = 0; i < K_ * V_; ++i) ds[i] *= kept;
        for (int64_t c = 0; c < K_ && dn; ++c) dn[c] *= kept;
        double through = dot(call_.before.s, ds, K_ * V_);
        if (dn) through += dot(call_.before.n, dn, K_);
        decays_weigh(0, L_, through);
        transpose(call_.before.s, V_, K_, V_, s_t_, K_);
    }

    // One query head: its outputs again, then e, dden and what follows from them.
    void read_back(int64_t i) {
        const R* const q = x_.q + i * K_;
        const R* const dy = call_.grads.dy + i * V_;
        R* const dq = call_.grads.dq + i * K_;
        const auto scale = static_cast<R>(rec_.scale);
        multiply({L_, L_, K_, q, x_.q_row, 1, keys_t_, kChunk, shares_, kChunk, false});
        for (int64_t r = 0; r < L_; ++r) {
            const auto factor = static_cast<R>(std::exp(b(r + 1) + m_in() - m(r))) * scale;
            for (int64_t c = 0; c < K_; ++c) reads_[r * K_ + c] = factor * q[r * x_.q_row + c];
            for (int64_t j = 0; j < L_; ++j)
                shares_[r * kChunk + j] *= scale * weights_[r * kChunk + j];
        }
        find_e(dy);
        // d of the scores q·k: s (e·v + dden) times their weights.
        multiply({L_, L_, V_, e_, V_, 1, values_t_, kChunk, dscores_, kChunk, false});
        for (int64_t r = 0; r < L_; ++r) {
            double sum = 0;  // decays after j up to r weigh what r reads of j
            for (int64_t j = 0; j < L_; ++j) {
                R& d = dscores_[r * kChunk + j];
                d += dden_[r];
                if (j < r) {
                    sum += static_cast<double>(d) * static_cast<double>(shares_[r * kChunk + j]);
                    dg_[j + 1] += sum;
                }
                d *= scale * weights_[r * kChunk + j];
            }
        }
        // dq
        multiply({L_, K_, V_, e_, V_, 1, s_t_, K_, rows_, K_, false});
        for (int64_t r = 0; r < L_; ++r) {
            const auto factor = static_cast<R>(std::exp(b(r + 1) + m_in() - m(r))) * scale;
            for (int64_t c = 0; c < K_; ++c) {
                R sum = rows_[r * K_ + c];
                if (call_.before.n) sum += call_.before.n[c] * dden_[r];
                dq[r * call_.grads.dq_row + c] = factor * sum;
            }
            // Decays up to r weigh what it reads of the state before.
            decays_weigh(0, r + 1, dot(q + r * x_.q_row, dq + r * call_.grads.dq_row, K_));
        }
        multiply({L_, K_, L_, dscores_, kChunk, 1, keys_, K_, dq, call_.grads.dq_row, true});
        // dk, dv and the state before
        multiply({L_, K_, L_, dscores_, 1, kChunk, q, x_.q_row, dkeys_, K_, true});
        multiply({L_, V_, L_, shares_, 1, kChunk, e_, V_, dvalues_, V_, true});
        multiply({K_, V_, L_, reads_, 1, K_, e_, V_, call_.dstate.s, V_, true});
        for (int64_t r = 0; r < L_ && call_.dstate.n; ++r)
            call_.maths.axpy(dden_[r], reads_ + r * K_, call_.dstate.n, K_);
    }

    // e = dy / N and dden of each token, eq. (4) backwards.
    void find_e(const R* dy) {
        std::fill_n(dden_, L_, R(0));
        for (int64_t r = 0; r < L_; ++r) std::copy_n(dy + r * call_.grads.dy_row, V_, e_ + r * V_);
        if (!rec_.has_normaliser() && !rec_.has_stabiliser()) return;
        const auto eps = static_cast<R>(rec_.eps);
        multiply({L_, V_, K_, reads_, K_, 1, call_.before.s, V_, y_, V_, false});
        for (int64_t first = 0; first < L_; ++first)
            multiply({1, V_, first + 1, shares_ + first * kChunk, kChunk, 1, x_.v, x_.v_row,
                      y_ + first * V_, V_, true});
        for (int64_t r = 0; r < L_; ++r) {
            const R along = static_cast<R>(dot(e_ + r * V_, y_ + r * V_, V_));
            if (!rec_.has_normaliser()) {
                dm_[r] -= along;
                continue;
            }
            double sum = dot(reads_ + r * K_, call_.before.n, K_);
            for (int64_t j = 0; j <= r; ++j) sum += static_cast<double>(shares_[r * kChunk + j]);
            const auto den = static_cast<R>(sum);
            const R floor =
                rec_.normaliser == Normaliser::max_abs ? static_cast<R>(std::exp(-m(r))) : R(0);
            const R by = std::max(std::abs(den), floor) + eps;
            if (std::abs(den) >= floor) dden_[r] = (den < 0 ? along : -along) / (by * by);
            dm_[r] -= along / by * (eps / by);
            for (int64_t j = 0; j < V_; ++j) e_[r * V_ + j] /= by;
        }
    }

    // Gradients of keys to those of k and w.
    void finish() {
        for (int64_t t = 0; t < L_; ++t) {
            const TokenGrads<R> at = call_.grads.from(t);
            const R* const dkey = dkeys_ + t * K_;
            *at.dg = static_cast<R>(dg_[t]);
            const R factor = rec_.has_stabiliser() ? R(1) : strength(t);
            for (int64_t c = 0; c < K_; ++c) at.dk[c] = factor * dkey[c];
            std::copy_n(dvalues_ + t * V_, V_, at.dv);
            if (!at.dw) continue;
            *at.dw = static_cast<R>(dot(x_.k + t * x_.k_row, dkey, K_));
        }
        if (rec_.has_stabiliser()) stabiliser_backward(call_, dm_);
    }

    void multiply(const training::Product<R>& product) const { call_.maths.product(product); }

    const Recurrence& rec_;
    const Tokens<R>& x_;
    const ChunkCall<R>& call_;
    int64_t K_, V_, L_;
    double* b_;           // [L + 1]
    double* dg_;          // [L]
    R* weights_;          // [L, kChunk]
    R* shares_;           // [L, kChunk], times scores and s
    R* dscores_;          // [L, kChunk]
    R* keys_;             // [L, K], times strengths that are factors
    R* keys_t_;           // [K, kChunk]
    R* values_t_;         // [V, kChunk]
    R* s_t_;              // [V, K] of a state
    R* reads_;            // [L, K], eq. (7) times s
    R *dkeys_, *rows_;    // [L, K]
    R *y_, *e_;           // [L, V]
    R* dvalues_;          // [L, V]
    R *m_, *dden_, *dm_;  // [L]
};

}  // namespace

template <class R>
int64_t chunk_backward_scratch(const Recurrence& rec) {
    return ChunkBackward<R>::scratch(rec);
}
template <class R>
void backward_by_chunk(const ChunkCall<R>& call) {
    ChunkBackward<R>(call).run();
}
template int64_t chunk_backward_scratch<float>(const Recurrence&);
template int64_t chunk_backward_scratch<double>(const Recurrence&);
template void backward_by_chunk(const ChunkCall<float>&);
template void backward_by_chunk(const ChunkCall<double>&);

}  // namespace bifocal::linear
