// The recurrence that every linear mixer is a case of, for one state and the query heads that read
// it (README.md, eq. 1-5). Two fast forms with the same meaning: one token after the other, and
// chunks of tokens by matrix products. recurrence_reference.h has the definitions in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace bifocal::linear {

enum class Write : uint8_t {
    plain,        // w k vᵀ, w as given
    exponential,  // e^w k vᵀ for any w: the state is kept times e^-m, with the largest exponent m
    delta,        // w k (v - S̃ᵀk)ᵀ: what k recalls is erased before v is written
};

enum class Normaliser : uint8_t {
    none,
    sum,      // y / (n·q)
    max_abs,  // y / max(|n·q|, 1)
    apart,    // y as it is; n·q goes to Tokens::den
};

struct Recurrence {
    int64_t key_dim = 0, value_dim = 0;  // K, V
    int64_t n_queries = 1;               // query heads that read one state
    bool decays_by_channel = false;      // log decays are [K] per token instead of one
    Write write = Write::plain;
    Normaliser normaliser = Normaliser::none;
    bool has_bonus = false;  // RWKV-6: reads S of the token before, plus k vᵀ weighed by `bonus`;
                             // only with decays by channel
    float scale = 1;         // s, on q
    float eps = 1e-6f;       // added to the divisor, on the scale of the state as it is kept

    bool has_stabiliser() const { return write == Write::exponential; }
    bool has_normaliser() const { return normaliser != Normaliser::none; }
};

// T tokens of one state. Rows are tokens, `*_row` elements apart.
template <class R>
struct Tokens {
    int64_t n = 0;         // T
    const R* q = nullptr;  // [T, n_queries, K]
    const R* k = nullptr;  // [T, K]
    const R* v = nullptr;  // [T, V]
    const R* g = nullptr;  // [T] or [T, K] log decays, <= 0
    const R* w = nullptr;  // [T] write strengths; null: 1, or e^0
    R* y = nullptr;        // [T, n_queries, V], overwritten; may not overlap the others
    int64_t q_row = 0, k_row = 0, v_row = 0, g_row = 0, w_row = 0, y_row = 0;
    const R* bonus = nullptr;  // [K], if has_bonus
    R* den = nullptr;          // [T, n_queries], of Normaliser::apart
    int64_t den_row = 0;

    Tokens from(int64_t t) const {
        Tokens rest = *this;
        rest.n = n - t;
        rest.q += t * q_row;
        rest.k += t * k_row;
        rest.v += t * v_row;
        rest.g += t * g_row;
        if (w) rest.w += t * w_row;
        rest.y += t * y_row;
        if (den) rest.den += t * den_row;
        return rest;
    }
    Tokens first(int64_t t) const {
        Tokens part = *this;
        part.n = t;
        return part;
    }
};

template <class R>
struct State {
    R* s = nullptr;  // [K, V]
    R* n = nullptr;  // [K], if there is a normaliser
    R* m = nullptr;  // [1], if there is a stabiliser; -infinity before the first token
};

// Most tokens that go through the matrix form together.
inline constexpr int64_t kChunk = 64;
// How many do: about as many as a key is long. More would cost products of tokens with tokens, and
// digits.
int64_t chunk_length(const Recurrence& recurrence);

// Floats of scratch that either form takes.
int64_t scratch_floats(const Recurrence& recurrence);

// One token after the other.
void run_recurrent(const Recurrence& recurrence, const Tokens<float>& tokens,
                   const State<float>& state, std::span<float> scratch);
// Chunks of chunk_length() tokens.
void run_chunks(const Recurrence& recurrence, const Tokens<float>& tokens,
                const State<float>& state, std::span<float> scratch);

// Fewer tokens than this go one by one.
inline constexpr int64_t kWorthAChunk = 12;
bool prefers_chunks(const Recurrence& recurrence, int64_t n_tokens);
// Whichever form is the faster one.
void run(const Recurrence& recurrence, const Tokens<float>& tokens, const State<float>& state,
         std::span<float> scratch);
// Which forms run, for inspect.
std::string describe(const Recurrence& recurrence);

}  // namespace bifocal::linear
