// The inner kernels, written once on the vector type that the including file has defined:
// Floats (16 f32), Ints (16 i32), Codes (64 u8: 16 rows of 4), Doubles (8 f64). Included once by
// each family's file, inside its anonymous namespace; includes nothing and calls nothing shared,
// see kernels.h. Every sum runs in one order: lane j takes elements j, j + 16, ...; lanes fold by
// halves.

// ---- elementary functions ----

// Within 1 ulp where the result is normal; e^x of large |x| goes to 0 and infinity, a NaN stays.
inline Floats exp_of(Floats x) {
    x = min_of(splat(89.0f), max_of(splat(-104.0f), x));  // the second operand wins if it is a NaN
    const Floats n = round_even(mul(x, splat(0x1.715476p+0f)));
    Floats r = fma(n, splat(-0x1.62e4p-1f), x);  // ln 2 in two parts
    r = fma(n, splat(-0x1.7f7d1cf8p-20f), r);
    Floats p = splat(0x1.a1520cp-13f);  // (e^r - 1 - r) / r^2, Chebyshev fit on |r| <= ln 2 / 2
    p = fma(p, r, splat(0x1.6d43b4p-10f));
    p = fma(p, r, splat(0x1.1110c6p-7f));
    p = fma(p, r, splat(0x1.5554e8p-5f));
    p = fma(p, r, splat(0x1.555556p-3f));
    p = fma(p, r, splat(0.5f));
    p = fma(mul(r, r), p, r);
    return times_power_of_two(add(p, splat(1.0f)), n);
}

// ---- vectors ----

template <class T>
inline float dot_any(const float* a, const T* b, int64_t n) {
    Floats sum = splat(0.0f);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) sum = fma(load(a + i), load(b + i), sum);
    if (i < n) sum = fma(load_some(a + i, n - i), load_some(b + i, n - i), sum);
    return sum_of(sum);
}
float dot_f32(const float* a, const float* b, int64_t n) {
    return dot_any(a, b, n);
}
float dot_bf16(const float* a, const uint16_t* b, int64_t n) {
    return dot_any(a, reinterpret_cast<const Bf16*>(b), n);
}

template <class T>
inline void axpy_any(float w, const T* x, float* y, int64_t n) {
    const Floats ws = splat(w);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, fma(ws, load(x + i), load(y + i)));
    if (i < n) {
        store_some(y + i, fma(ws, load_some(x + i, n - i), load_some(y + i, n - i)), n - i);
    }
}
void axpy_f32(float w, const float* x, float* y, int64_t n) {
    axpy_any(w, x, y, n);
}
void axpy_bf16(float w, const uint16_t* x, float* y, int64_t n) {
    axpy_any(w, reinterpret_cast<const Bf16*>(x), y, n);
}

// y[i] = f(i-th elements of a and b), in place on a.
template <class F>
inline void map2(float* a, const float* b, int64_t n, F f) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(a + i, f(load(a + i), load(b + i)));
    if (i < n) store_some(a + i, f(load_some(a + i, n - i), load_some(b + i, n - i)), n - i);
}

struct ScaleBy {
    Floats w;
    Floats operator()(Floats x, Floats) const { return mul(x, w); }
};
void scale_f32(float w, float* x, int64_t n) {
    map2(x, x, n, ScaleBy{splat(w)});
}

struct Add {
    Floats operator()(Floats y, Floats x) const { return add(y, x); }
};
void add_f32(const float* x, float* y, int64_t n) {
    map2(y, x, n, Add{});
}

// Both gates are a * sigmoid(g(a)) * b; infinity in the divisor gives the right zero.
struct SiluMul {
    Floats operator()(Floats a, Floats b) const {
        const Floats e = exp_of(sub(splat(0.0f), a));
        return mul(div(a, add(e, splat(1.0f))), b);
    }
};
void silu_mul(float* a, const float* b, int64_t n) {
    map2(a, b, n, SiluMul{});
}

struct GeluTanhMul {
    // (1 + tanh u) / 2 = 1 / (1 + e^(-2u)), u = sqrt(2 / pi) (a + 0.044715 a^3)
    Floats operator()(Floats a, Floats b) const {
        const Floats cubic = fma(mul(splat(0.044715f), mul(a, a)), a, a);
        const Floats e = exp_of(mul(splat(-2.0f * 0.7978845608f), cubic));
        return mul(div(a, add(e, splat(1.0f))), b);
    }
};
void gelu_tanh_mul(float* a, const float* b, int64_t n) {
    map2(a, b, n, GeluTanhMul{});
}

struct ClampedSwigluMul {
    Floats operator()(Floats a, Floats b) const {
        a = min_of(splat(7.0f), a);
        b = min_of(splat(7.0f), max_of(splat(-7.0f), b));
        const Floats e = exp_of(mul(splat(-1.702f), a));
        return mul(div(a, add(e, splat(1.0f))), add(b, splat(1.0f)));
    }
};
void clamped_swiglu_mul(float* a, const float* b, int64_t n) {
    map2(a, b, n, ClampedSwigluMul{});
}

float max_f32(const float* x, int64_t n) {
    Floats top = splat(-__builtin_inff());
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) top = max_of(load(x + i), top);  // a NaN is passed over
    float best = largest_of(top);
    for (; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
}

float exp_sum(float* x, int64_t n, float max) {
    const Floats shift = splat(max);
    Floats sum = splat(0.0f);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const Floats e = exp_of(sub(load(x + i), shift));
        store(x + i, e);
        sum = add(sum, e);
    }
    if (i < n) {
        store_some(x + i, exp_of(sub(load_some(x + i, n - i), shift)), n - i);
        sum = add(sum, load_some(x + i, n - i));
    }
    return sum_of(sum);
}

void to_bf16(const float* x, uint16_t* y, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store_bf16(y + i, load(x + i));
    if (i < n) {
        uint16_t rest[16];
        store_bf16(rest, load_some(x + i, n - i));
        for (int64_t j = 0; i + j < n; ++j) y[i + j] = rest[j];
    }
}

void norm_scale(const float* x, float scale, const float* weight, float* y, int64_t n) {
    const Floats s = splat(scale);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, mul(mul(load(x + i), s), load(weight + i)));
    if (i < n) {
        const Floats v = mul(load_some(x + i, n - i), s);
        store_some(y + i, mul(v, load_some(weight + i, n - i)), n - i);
    }
}

// ---- rotations ----

// Cosines and sines of 8 angles in double, to about 1e-12 absolutely. The quadrant is applied by
// arithmetic on zeros and ones.
inline void cos_sin_of(Doubles x, Doubles& cos, Doubles& sin) {
    const Doubles n = round_even(mul(x, splat_double(0x1.45f306dc9c883p-1)));  // 2 / pi
    Doubles r = fma(n, splat_double(-0x1.921fb54442d18p+0), x);  // pi / 2 in two parts
    r = fma(n, splat_double(-0x1.1a62633145c07p-54), r);
    const Doubles r2 = mul(r, r);
    Doubles s = splat_double(-1.0 / 39916800);  // Taylor: |r| <= pi / 4
    s = fma(s, r2, splat_double(1.0 / 362880));
    s = fma(s, r2, splat_double(-1.0 / 5040));
    s = fma(s, r2, splat_double(1.0 / 120));
    s = fma(s, r2, splat_double(-1.0 / 6));
    s = fma(mul(s, r2), r, r);
    Doubles c = splat_double(1.0 / 479001600);
    c = fma(c, r2, splat_double(-1.0 / 3628800));
    c = fma(c, r2, splat_double(1.0 / 40320));
    c = fma(c, r2, splat_double(-1.0 / 720));
    c = fma(c, r2, splat_double(1.0 / 24));
    c = fma(c, r2, splat_double(-0.5));
    c = fma(c, r2, splat_double(1.0));
    const Doubles two = splat_double(-2.0);
    const Doubles half = floor_of(mul(n, splat_double(0.5)));
    const Doubles odd = fma(half, two, n);                                        // n mod 2
    const Doubles back = fma(floor_of(mul(half, splat_double(0.5))), two, half);  // n mod 4 >= 2
    const Doubles crossed = fma(mul(odd, back), two, add(odd, back));             // their xor
    const Doubles swap = sub(c, s);
    const Doubles one = splat_double(1.0);
    sin = mul(fma(odd, swap, s), fma(back, two, one));
    cos = mul(fma(odd, sub(s, c), c), fma(crossed, two, one));
}

void cos_sin(const double* inv_freq, int64_t n, double pos, double factor, float* cos, float* sin) {
    Doubles c, s;
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) {
        cos_sin_of(mul(load(inv_freq + j), splat_double(pos)), c, s);
        store_rounded(cos + j, mul(c, splat_double(factor)));
        store_rounded(sin + j, mul(s, splat_double(factor)));
    }
    if (j == n) return;
    double rest[8] = {};
    float rest_cos[8], rest_sin[8];
    for (int64_t i = j; i < n; ++i) rest[i - j] = inv_freq[i];
    cos_sin(rest, 8, pos, factor, rest_cos, rest_sin);
    for (int64_t i = j; i < n; ++i) {
        cos[i] = rest_cos[i - j];
        sin[i] = rest_sin[i - j];
    }
}

void rotate(const float* cos, const float* sin, float* a, float* b, int64_t n) {
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) {
        const Floats x = load(a + j), y = load(b + j), c = load(cos + j), s = load(sin + j);
        store(a + j, sub(mul(x, c), mul(y, s)));
        store(b + j, add(mul(y, c), mul(x, s)));
    }
    for (; j < n; ++j) {
        const float x = a[j], y = b[j];
        a[j] = x * cos[j] - y * sin[j];
        b[j] = y * cos[j] + x * sin[j];
    }
}

// ---- activations to int8 ----

// d = max|x| / 127, codes rounded to nearest even. Blocks below 2^-110 count as zero (127 / max
// would overflow). A NaN or infinity anywhere makes the whole block NaN.
void quantise(const float* x, int64_t n_blocks, ActivationBlock* blocks, int64_t stride) {
    for (int64_t b = 0; b < n_blocks; ++b, x += 32, blocks += stride) {
        const Floats x0 = load(x);
        const Floats x1 = load(x + 16);
        const float top = largest_magnitude(x0, x1);
        const bool finite = top <= 0x1.fffffep+127f;
        const bool usable = finite && top >= 0x1p-110f;
        const Floats inverse = splat(usable ? 127.0f / top : 0.0f);
        const Floats q0 = usable ? round_even(mul(x0, inverse)) : splat(0.0f);
        const Floats q1 = usable ? round_even(mul(x1, inverse)) : splat(0.0f);
        store_i8(blocks->q, q0);
        store_i8(blocks->q + 16, q1);
        float low, high;  // whole numbers below 2^24: exact in any order
        sums_of(q0, q1, low, high);
        const float sum = low + high;
        blocks->d = usable ? top / 127.0f : finite ? 0.0f : __builtin_nanf("");
        blocks->sum = blocks->d * sum;
        blocks->neg_sum = -static_cast<int32_t>(sum);
        blocks->neg_sum_low = -static_cast<int32_t>(low);
    }
}

// ---- weights: how each packing turns into codes, scales and minima ----

// The 32 columns of a block are 8 Codes of 4 columns each.
struct Block {
    Codes codes[8];
    Floats scale;
    Floats scale_high;  // of columns 16-31, if kHalves
    Floats min;         // if kMin
};

inline void load_nibbles(const uint8_t* p, Codes* codes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        const Codes packed = load_codes(p + 64 * j);
        codes[j] = low_nibbles(packed);
        codes[j + 4] = high_nibbles(packed);
    }
}
inline void add_fifths(const uint8_t* p, Codes* codes) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) codes[g] = add_bit(codes[g], p + 8 * g, 16);
}

// kOffset: what is subtracted from every code, a power of two as its logarithm; 0 for none.
struct Q4_0 {
    static constexpr int kUnit = 288, kBlocks = 1, kOffset = 3;
    static constexpr bool kMin = false, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int, Block& out) {
        load_nibbles(unit, out.codes);
        out.scale = load_f16(unit + 256);
    }
};
struct Q4_1 {
    static constexpr int kUnit = 320, kBlocks = 1, kOffset = 0;
    static constexpr bool kMin = true, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int, Block& out) {
        load_nibbles(unit, out.codes);
        out.scale = load_f16(unit + 256);
        out.min = load_f16(unit + 288);
    }
};
struct Q5_0 {
    static constexpr int kUnit = 352, kBlocks = 1, kOffset = 4;
    static constexpr bool kMin = false, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int, Block& out) {
        load_nibbles(unit, out.codes);
        add_fifths(unit + 256, out.codes);
        out.scale = load_f16(unit + 320);
    }
};
struct Q5_1 {
    static constexpr int kUnit = 384, kBlocks = 1, kOffset = 0;
    static constexpr bool kMin = true, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int, Block& out) {
        load_nibbles(unit, out.codes);
        add_fifths(unit + 256, out.codes);
        out.scale = load_f16(unit + 320);
        out.min = load_f16(unit + 352);
    }
};
struct Q8_0 {
    static constexpr int kUnit = 544, kBlocks = 1, kOffset = 7;
    static constexpr bool kMin = false, kHalves = false, kBytes = true;
    static void block(const uint8_t* unit, int, Block& out) {
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) out.codes[g] = load_codes(unit + 64 * g);
        out.scale = load_f16(unit + 512);
    }
};
struct Mxfp4 {
    static constexpr int kUnit = 288, kBlocks = 1, kOffset = 4;
    static constexpr bool kMin = false, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int, Block& out) {
        // Doubled values plus the offset.
        alignas(16) static const uint8_t kValues[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                        16, 15, 14, 13, 12, 10, 8,  4};
        load_nibbles(unit, out.codes);
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) out.codes[g] = look_up(kValues, out.codes[g]);
        out.scale = load(reinterpret_cast<const Bf16*>(unit + 256));
    }
};
struct Q4_K {
    static constexpr int kUnit = 2368, kBlocks = 8, kOffset = 0;
    static constexpr bool kMin = true, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int b, Block& out) {
        const uint8_t* p = unit + 64 + 288 * b;
        load_nibbles(p, out.codes);
        out.scale = mul(load_f16(unit), load_u8(p + 256));
        out.min = sub(splat(0.0f), mul(load_f16(unit + 32), load_u8(p + 272)));
    }
};
struct Q5_K {
    static constexpr int kUnit = 2880, kBlocks = 8, kOffset = 0;
    static constexpr bool kMin = true, kHalves = false, kBytes = false;
    static void block(const uint8_t* unit, int b, Block& out) {
        const uint8_t* p = unit + 64 + 352 * b;
        load_nibbles(p, out.codes);
        add_fifths(p + 256, out.codes);
        out.scale = mul(load_f16(unit), load_u8(p + 320));
        out.min = sub(splat(0.0f), mul(load_f16(unit + 32), load_u8(p + 336)));
    }
};
struct Q6_K {
    static constexpr int kUnit = 3360, kBlocks = 8, kOffset = 5;
    static constexpr bool kMin = false, kHalves = true, kBytes = false;
    static void block(const uint8_t* unit, int b, Block& out) {
        const uint8_t* p = unit + 32 + 416 * b;
        load_nibbles(p, out.codes);
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
            const Codes pairs = load_codes(p + 256 + 64 * h);
            out.codes[4 * h] = add_pair<0>(out.codes[4 * h], pairs);
            out.codes[4 * h + 1] = add_pair<2>(out.codes[4 * h + 1], pairs);
            out.codes[4 * h + 2] = add_pair<4>(out.codes[4 * h + 2], pairs);
            out.codes[4 * h + 3] = add_pair<6>(out.codes[4 * h + 3], pairs);
        }
        const Floats d = load_f16(unit);
        out.scale = mul(d, load_i8(p + 384));
        out.scale_high = mul(d, load_i8(p + 400));
    }
};

// ---- panel times columns ----

// With few columns a panel is used once and comes straight from memory, whose latency the hardware
// prefetchers hide only in part (they stop at page ends). Measured on 2 cores of a Sapphire Rapids
// class server, 94 MB in huge pages: 41 GB/s without, 47 at 2 KiB ahead, 49 at 4, 51 at 8.
constexpr int kPrefetchAhead = 6144;
template <int kBytes>
inline void prefetch_ahead(const void* p) {
    const char* ahead = static_cast<const char*>(p) + kPrefetchAhead;
#pragma GCC unroll 16
    for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i);
}

// 4 columns of codes times the activations at `q`, added to the lanes of `sum`.
template <class P>
inline Ints dot_step(Ints sum, Codes codes, const int8_t* q) {
    if constexpr (P::kBytes) return dot_bytes(sum, codes, q);
    return dot_codes(sum, codes, q);
}
// Where the sum of a block starts, so that codes count without their offset.
template <class P>
inline Ints start_sum(int32_t neg_sum) {
    if constexpr (P::kBytes && !kBytesNeedOffset) return int_zero();
    if constexpr (P::kOffset == 0) return int_zero();
    return shifted<P::kOffset>(neg_sum);
}

// C columns; x: [n_blocks, step]
template <class P, int C>
inline void quant_columns(const uint8_t* panel, int64_t n_blocks, const ActivationBlock* x,
                          int64_t step, float* out) {
    Floats total[C];
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) total[c] = splat(0.0f);
    for (int64_t done = 0; done < n_blocks; done += P::kBlocks, panel += P::kUnit) {
        for (int b = 0; b < P::kBlocks; ++b, x += step) {
            if constexpr (C <= 2) {
                constexpr int kStep = P::kUnit / P::kBlocks;
                prefetch_ahead<kStep>(panel + b * kStep);
            }
            Block w;
            P::block(panel, b, w);
#pragma GCC unroll 12
            for (int c = 0; c < C; ++c) {
                const ActivationBlock& a = x[c];
                const Floats d = splat(a.d);
                if constexpr (P::kHalves) {
                    Ints low = start_sum<P>(a.neg_sum_low);
                    Ints high = start_sum<P>(a.neg_sum - a.neg_sum_low);
#pragma GCC unroll 4
                    for (int g = 0; g < 4; ++g) {
                        low = dot_step<P>(low, w.codes[g], a.q + 4 * g);
                        high = dot_step<P>(high, w.codes[g + 4], a.q + 16 + 4 * g);
                    }
                    total[c] = fma(to_floats(low), mul(w.scale, d), total[c]);
                    total[c] = fma(to_floats(high), mul(w.scale_high, d), total[c]);
                } else {
                    Ints sum = start_sum<P>(a.neg_sum);
#pragma GCC unroll 8
                    for (int g = 0; g < 8; ++g) sum = dot_step<P>(sum, w.codes[g], a.q + 4 * g);
                    total[c] = fma(to_floats(sum), mul(w.scale, d), total[c]);
                    if constexpr (P::kMin) total[c] = fma(w.min, splat(a.sum), total[c]);
                }
            }
        }
    }
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) store(out + 16 * c, total[c]);
}

template <class P>
void quant_tile(const uint8_t* panel, int64_t n_blocks, const ActivationBlock* x, int n_columns,
                float* out) {
    if constexpr (kOneColumnAtATime) {
        for (int c = 0; c < n_columns; ++c) {
            quant_columns<P, 1>(panel, n_blocks, x + c, n_columns, out + 16 * c);
        }
    } else {
        switch (n_columns) {
            case 12:
                return quant_columns<P, 12>(panel, n_blocks, x, 12, out);
            case 8:
                return quant_columns<P, 8>(panel, n_blocks, x, 8, out);
            case 4:
                return quant_columns<P, 4>(panel, n_blocks, x, 4, out);
            case 2:
                return quant_columns<P, 2>(panel, n_blocks, x, 2, out);
            default:
                return quant_columns<P, 1>(panel, n_blocks, x, 1, out);
        }
    }
}

void write_tile(const float* sums, int n_columns, const float* bias, bool accumulate, float* y,
                int64_t stride) {
    const Floats b = bias != nullptr ? load(bias) : splat(0.0f);
    for (int c = 0; c < n_columns; ++c, y += stride) {
        Floats value = load(sums + 16 * c);
        if (bias != nullptr) value = add(value, b);
        if (accumulate) value = add(value, load(y));
        store(y, value);
    }
}

template <class P>
void dequant_tile(const uint8_t* units, int64_t n_blocks, float* out) {
    const Floats offset = splat(P::kOffset > 0 ? static_cast<float>(1 << P::kOffset) : 0.0f);
    for (int64_t done = 0; done < n_blocks; done += P::kBlocks, units += P::kUnit) {
        for (int b = 0; b < P::kBlocks; ++b) {
            Block w;
            P::block(units, b, w);
            for (int g = 0; g < 8; ++g, out += 64) {
                const Floats scale = P::kHalves && g >= 4 ? w.scale_high : w.scale;
                const auto weigh = [&](Ints codes) {
                    const Floats y = mul(sub(to_floats(codes), offset), scale);
                    if constexpr (P::kMin) return add(y, w.min);
                    return y;
                };
                store(out, weigh(byte_of<0>(w.codes[g])));
                store(out + 16, weigh(byte_of<1>(w.codes[g])));
                store(out + 32, weigh(byte_of<2>(w.codes[g])));
                store(out + 48, weigh(byte_of<3>(w.codes[g])));
            }
        }
    }
}

// Two chains for each of C columns, of even and odd k; x: [n_k, step]
template <class T, int C>
inline void float_columns(const T* panel, int64_t n_k, const float* x, int64_t step, float* out) {
    Floats even[C], odd[C];
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) even[c] = odd[c] = splat(0.0f);
    int64_t k = 0;
    for (; k + 2 <= n_k; k += 2, x += 2 * step) {
        if constexpr (C <= 2) prefetch_ahead<2 * 16 * sizeof(T)>(panel + 16 * k);
        const Floats w0 = load(panel + 16 * k);
        const Floats w1 = load(panel + 16 * k + 16);
#pragma GCC unroll 12
        for (int c = 0; c < C; ++c) {
            even[c] = fma(w0, splat(x[c]), even[c]);
            odd[c] = fma(w1, splat(x[step + c]), odd[c]);
        }
    }
    if (k < n_k) {
        const Floats w0 = load(panel + 16 * k);
#pragma GCC unroll 12
        for (int c = 0; c < C; ++c) even[c] = fma(w0, splat(x[c]), even[c]);
    }
#pragma GCC unroll 12
    for (int c = 0; c < C; ++c) {
        store(out + 16 * c, add(load(out + 16 * c), add(even[c], odd[c])));
    }
}

// As many columns at a time as the registers hold.
template <class T>
void float_tile(const void* panel, int64_t n_k, const float* x, int n_columns, float* out) {
    const T* w = static_cast<const T*>(panel);
    int done = 0;
    const auto take = [&]<int C>() {
        for (; n_columns - done >= C; done += C) {
            float_columns<T, C>(w, n_k, x + done, n_columns, out + 16 * done);
        }
    };
    if constexpr (kFloatColumns >= 12) take.template operator()<12>();
    if constexpr (kFloatColumns >= 8) take.template operator()<8>();
    if constexpr (kFloatColumns >= 4) take.template operator()<4>();
    if constexpr (kFloatColumns >= 2) take.template operator()<2>();
    take.template operator()<1>();
}

// ---- products of mixers ----

// R rows of C and N vectors of columns, the last one of n_last columns.
template <int R, int N>
inline void product_tile(const SmallProduct& p, int64_t row, int64_t column, int64_t n_last) {
    Floats sum[R][N];
    float* c = p.c + row * p.c_row + column;
    const auto at = [&](const float* x, int v) {
        return v + 1 < N || n_last == 16 ? load(x + 16 * v) : load_some(x + 16 * v, n_last);
    };
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) sum[r][v] = p.accumulate ? at(c + r * p.c_row, v) : splat(0.0f);
    }
    const float* a = p.a + row * p.a_row;
    const float* b = p.b + column;
    for (int64_t k = 0; k < p.n_inner; ++k, a += p.a_inner, b += p.b_row) {
        Floats w[N];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) w[v] = at(b, v);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Floats x = splat(a[r * p.a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) sum[r][v] = fma(x, w[v], sum[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) {
            float* y = c + r * p.c_row + 16 * v;
            if (v + 1 < N || n_last == 16) {
                store(y, sum[r][v]);
            } else {
                store_some(y, sum[r][v], n_last);
            }
        }
    }
}

template <int N>
inline void product_columns(const SmallProduct& p, int64_t column, int64_t n_last) {
    int64_t row = 0;
    const auto take = [&]<int R>() {
        for (; p.n_rows - row >= R; row += R) product_tile<R, N>(p, row, column, n_last);
    };
    if constexpr (kFloatColumns >= 12) take.template operator()<8>();
    if constexpr (kFloatColumns >= 2) take.template operator()<4>();
    if constexpr (kFloatColumns >= 2) take.template operator()<2>();
    take.template operator()<1>();
}

void small_product(const SmallProduct& p) {
    constexpr int kVectors = kFloatColumns >= 12 ? 2 : 1;
    int64_t column = 0;
    const auto last = [&](int64_t n) { return n < 16 ? n : 16; };
    // One row reads B once, so B comes from far: in whole stretches of a row of it, which the
    // machine can fetch ahead.
    if (kFloatColumns >= 2 && p.n_rows == 1)
        for (; p.n_columns - column > 48; column += 64)
            product_tile<1, 4>(p, 0, column, last(p.n_columns - column - 48));
    if constexpr (kVectors == 2) {
        for (; p.n_columns - column > 16; column += 32)
            product_columns<2>(p, column, last(p.n_columns - column - 16));
    }
    for (; column < p.n_columns; column += 16)
        product_columns<1>(p, column, last(p.n_columns - column));
}

// The columns from `column` on, n of them, for G queries at once; the state is written by the
// first group of queries only.
template <int G, bool kUpdates>
inline void step_columns(const StateStep& step, int64_t column, int64_t n, int64_t query) {
    const auto at = [&](const float* x) { return n == 16 ? load(x) : load_some(x, n); };
    const auto put = [&](float* x, Floats y) {
        if (n == 16) {
            store(x, y);
        } else {
            store_some(x, y, n);
        }
    };
    Floats sum[G > 0 ? G : 1];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) sum[g] = splat(0.0f);
    const Floats u = kUpdates ? at(step.u + column) : splat(0.0f);
    const float* q = step.q + query * step.q_row;
    float* s = step.s + column;
    for (int64_t c = 0; c < step.key_dim; ++c, s += step.value_dim) {
        Floats row = at(s);
        if constexpr (kUpdates) {
            row = fma(splat(step.k[c]), u, mul(splat(step.decay[c * step.decay_step]), row));
            put(s, row);
        }
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) sum[g] = fma(splat(q[g * step.q_row + c]), row, sum[g]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) put(step.y + (query + g) * step.y_row + column, sum[g]);
}

template <bool kUpdates>
inline void step_queries(const StateStep& step, int64_t column, int64_t n, int64_t query) {
    switch (step.n_queries - query) {
        case 0:
            return step_columns<0, kUpdates>(step, column, n, query);
        case 1:
            return step_columns<1, kUpdates>(step, column, n, query);
        case 2:
            return step_columns<2, kUpdates>(step, column, n, query);
        case 3:
            return step_columns<3, kUpdates>(step, column, n, query);
        default:
            return step_columns<4, kUpdates>(step, column, n, query);
    }
}

void state_step(const StateStep& step) {
    for (int64_t column = 0; column < step.value_dim; column += 16) {
        const int64_t left = step.value_dim - column, n = left < 16 ? left : 16;
        step_queries<true>(step, column, n, 0);
        for (int64_t g = 4; g < step.n_queries; g += 4) step_queries<false>(step, column, n, g);
    }
}

constexpr KernelSet kTable = {
    .quant_tile = {quant_tile<Q4_0>, quant_tile<Q4_1>, quant_tile<Q5_0>, quant_tile<Q5_1>,
                   quant_tile<Q8_0>, quant_tile<Mxfp4>, quant_tile<Q4_K>, quant_tile<Q5_K>,
                   quant_tile<Q6_K>},
    .dequant_tile = {dequant_tile<Q4_0>, dequant_tile<Q4_1>, dequant_tile<Q5_0>, dequant_tile<Q5_1>,
                     dequant_tile<Q8_0>, dequant_tile<Mxfp4>, dequant_tile<Q4_K>,
                     dequant_tile<Q5_K>, dequant_tile<Q6_K>},
    .f32_tile = float_tile<float>,
    .f16_tile = float_tile<F16>,
    .bf16_tile = float_tile<Bf16>,
    .write_tile = write_tile,
    .quantise = quantise,
    .dot = dot_f32,
    .dot_bf16 = dot_bf16,
    .axpy = axpy_f32,
    .axpy_bf16 = axpy_bf16,
    .scale = scale_f32,
    .max = max_f32,
    .exp_sum = exp_sum,
    .to_bf16 = to_bf16,
    .norm_scale = norm_scale,
    .add = add_f32,
    .silu_mul = silu_mul,
    .gelu_tanh_mul = gelu_tanh_mul,
    .clamped_swiglu_mul = clamped_swiglu_mul,
    .small_product = small_product,
    .state_step = state_step,
    .cos_sin = cos_sin,
    .rotate = rotate,
};
