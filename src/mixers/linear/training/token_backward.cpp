// The backward token by token: the states inside the chunk are found again, then every line of
// README.md eq. (1)-(5) is taken back in turn.
#include <cmath>

#include "mixers/linear/training/recurrence.h"

namespace bifocal::linear {
namespace {

template <class R>
class TokenBackward {
  public:
    explicit TokenBackward(const ChunkCall<R>& call)
        : rec_(call.rec),
          x_(call.x),
          call_(call),
          K_(rec_.key_dim),
          V_(rec_.value_dim),
          size_(K_ * V_ + K_) {
        R* memory = call.scratch;
        const auto take = [&](int64_t n) {
            R* const begin = memory;
            memory += n;
            return begin;
        };
        states_ = take((kChunk + 1) * size_);
        kept_ = take(K_);
        recalled_ = take(V_);
        u_ = take(V_);
        du_ = take(V_);
        e_ = take(V_);
        m_ = take(kChunk + 1);
        dm_ = take(kChunk);
    }
    static int64_t scratch(const Recurrence& rec) {
        const int64_t K = rec.key_dim, V = rec.value_dim;
        return (kChunk + 1) * (K * V + K) + K + 4 * V + 2 * kChunk + 1;
    }

    void run() {
        find_states();
        std::fill_n(dm_, x_.n, R(0));
        for (int64_t t = x_.n - 1; t >= 0; --t) {
            find_written(t);
            read_back(t);
            write_back(t);
        }
        if (rec_.has_stabiliser()) stabiliser_backward(call_, dm_);
    }

  private:
    R* s(int64_t t) const { return states_ + t * size_; }  // before token t, [K, V]
    R* n(int64_t t) const { return s(t) + K_ * V_; }       // [K]
    const R* k(int64_t t) const { return x_.k + t * x_.k_row; }
    const R* v(int64_t t) const { return x_.v + t * x_.v_row; }
    bool erases() const { return rec_.write == Write::delta; }

    // Decays, what is recalled and what is written, eq. (1), (2) and (5).
    void find_written(int64_t t) {
        const R* const g = x_.g + t * x_.g_row;
        w_ = x_.w ? x_.w[t * x_.w_row] : R(rec_.has_stabiliser() ? 0 : 1);
        R shift = 0;
        if (rec_.has_stabiliser()) {
            m_[t + 1] = std::max(g[0] + m_[t], w_);
            shift = m_[t] - m_[t + 1];
            w_ = std::exp(w_ - m_[t + 1]);
        }
        for (int64_t c = 0; c < K_; ++c)
            kept_[c] = std::exp(g[rec_.decays_by_channel ? c : 0] + shift);
        std::fill_n(recalled_, V_, R(0));
        for (int64_t c = 0; c < K_ && erases(); ++c)
            call_.maths.axpy(kept_[c] * k(t)[c], s(t) + c * V_, recalled_, V_);
        for (int64_t j = 0; j < V_; ++j) u_[j] = w_ * (v(t)[j] - recalled_[j]);
    }

    void find_states() {
        std::copy_n(call_.before.s, K_ * V_, s(0));
        if (call_.before.n) std::copy_n(call_.before.n, K_, n(0));
        if (call_.before.m) m_[0] = *call_.before.m;
        for (int64_t t = 0; t < x_.n; ++t) {
            find_written(t);
            for (int64_t c = 0; c < K_; ++c) {
                for (int64_t j = 0; j < V_; ++j)
                    s(t + 1)[c * V_ + j] = kept_[c] * s(t)[c * V_ + j] + k(t)[c] * u_[j];
                if (call_.before.n) n(t + 1)[c] = kept_[c] * n(t)[c] + w_ * k(t)[c];
            }
        }
    }

    // eq. (4) of every query head: e = dy / N reaches S, dden reaches n.
    void read_back(int64_t t) {
        const R scale = static_cast<R>(rec_.scale), eps = static_cast<R>(rec_.eps);
        for (int64_t i = 0; i < rec_.n_queries; ++i) {
            const R* const q = x_.q + t * x_.q_row + i * K_;
            const R* const dy = call_.grads.dy + t * call_.grads.dy_row + i * V_;
            R* const dq = call_.grads.dq + t * call_.grads.dq_row + i * K_;
            R along = 0;  // dy · y before it is divided
            for (int64_t c = 0; c < K_; ++c)
                along += scale * q[c] * call_.maths.dot(s(t + 1) + c * V_, dy, V_);
            R by = 1, dden = 0;
            if (rec_.has_normaliser()) {
                R den = 0;
                for (int64_t c = 0; c < K_; ++c) den += n(t + 1)[c] * q[c];
                den *= scale;
                const R m = rec_.has_stabiliser() ? m_[t + 1] : R(0);
                const R floor = rec_.normaliser == Normaliser::max_abs ? std::exp(-m) : R(0);
                by = std::max(std::abs(den), floor) + eps;
                if (std::abs(den) >= floor) dden = (den < 0 ? along : -along) / (by * by);
                dm_[t] -= along / by * (eps / by);
            } else {
                dm_[t] -= along;
            }
            for (int64_t j = 0; j < V_; ++j) e_[j] = dy[j] / by;
            for (int64_t c = 0; c < K_; ++c) {
                dq[c] = scale * call_.maths.dot(s(t + 1) + c * V_, e_, V_);
                call_.maths.axpy(scale * q[c], e_, call_.dstate.s + c * V_, V_);
                if (!call_.dstate.n) continue;
                dq[c] += scale * n(t + 1)[c] * dden;
                call_.dstate.n[c] += scale * q[c] * dden;
            }
        }
    }

    // eq. (3), (2) and (1); dstate becomes that of the state before the token.
    void write_back(int64_t t) {
        const R* const key = k(t);
        R* const ds = call_.dstate.s;
        R* const dn = call_.dstate.n;
        R* const dk = call_.grads.dk + t * call_.grads.dk_row;
        R* const dv = call_.grads.dv + t * call_.grads.dv_row;
        R* const dg = call_.grads.dg + t * call_.grads.dg_row;
        R dw = 0;
        std::fill_n(du_, V_, R(0));
        for (int64_t c = 0; c < K_; ++c) {
            dk[c] = call_.maths.dot(ds + c * V_, u_, V_);
            call_.maths.axpy(key[c], ds + c * V_, du_, V_);
            if (!dn) continue;
            dk[c] += w_ * dn[c];
            dw += key[c] * dn[c];
        }
        for (int64_t j = 0; j < V_; ++j) {
            dw += du_[j] * (v(t)[j] - recalled_[j]);
            dv[j] = w_ * du_[j];
        }
        if (!rec_.decays_by_channel) dg[0] = 0;
        for (int64_t c = 0; c < K_; ++c) {
            R* const row = ds + c * V_;
            const R* const before = s(t) + c * V_;
            if (erases()) {  // what is recalled goes out with -dv
                dk[c] -= kept_[c] * call_.maths.dot(before, dv, V_);
                call_.maths.axpy(-key[c], dv, row, V_);
            }
            R dkept = call_.maths.dot(row, before, V_);
            if (dn) dkept += dn[c] * n(t)[c];
            if (rec_.decays_by_channel) dg[c] = 0;
            dg[rec_.decays_by_channel ? c : 0] += kept_[c] * dkept;
            for (int64_t j = 0; j < V_; ++j) row[j] *= kept_[c];
            if (dn) dn[c] *= kept_[c];
        }
        if (call_.grads.dw)
            call_.grads.dw[t * call_.grads.dw_row] = rec_.has_stabiliser() ? w_ * dw : dw;
    }

    const Recurrence& rec_;
    const Tokens<R>& x_;
    const ChunkCall<R>& call_;
    int64_t K_, V_, size_;
    R w_ = 1;
    R *states_, *kept_, *recalled_, *u_, *du_, *e_, *m_, *dm_;
};

}  // namespace

template <class R>
int64_t token_backward_scratch(const Recurrence& rec) {
    return TokenBackward<R>::scratch(rec);
}
template <class R>
void backward_by_token(const ChunkCall<R>& call) {
    TokenBackward<R>(call).run();
}
template int64_t token_backward_scratch<float>(const Recurrence&);
template int64_t token_backward_scratch<double>(const Recurrence&);
template void backward_by_token(const ChunkCall<float>&);
template void backward_by_token(const ChunkCall<double>&);

}  // namespace bifocal::linear
