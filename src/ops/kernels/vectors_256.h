// A vector of 16 lanes as two AVX2 registers; shared by avx2.cpp and avx_vnni.cpp, which add the
// dot products of codes. Included inside their anonymous namespaces.

struct Floats {
    __m256 low, high;
};
struct Ints {
    __m256i low, high;
};
struct Codes {
    __m256i low, high;
};
struct Doubles {
    __m256d low, high;
};
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};
constexpr int kFloatColumns = 2;  // two chains of 2 columns of 2 registers: 8 of 16
constexpr bool kOneColumnAtATime = false;

inline __m256i load_256(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load_128(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline __m128i load_64(const void* p) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}
inline Floats splat(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Floats load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline __m256 from_bf16(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline Floats load(const Bf16* p) {
    return {from_bf16(load_128(p)), from_bf16(load_128(p + 8))};
}
inline Floats load(const F16* p) {
    return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
template <class T>
inline Floats load_some(const T* p, int64_t n) {
    T whole[16] = {};
    for (int64_t i = 0; i < n; ++i) whole[i] = p[i];
    return load(whole);
}
inline void store(float* p, Floats x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}
inline void store_some(float* p, Floats x, int64_t n) {
    float whole[16];
    store(whole, x);
    for (int64_t i = 0; i < n; ++i) p[i] = whole[i];
}
inline Floats add(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Floats sub(Floats a, Floats b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Floats mul(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats div(Floats a, Floats b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats max_of(Floats a, Floats b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Floats min_of(Floats a, Floats b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Floats abs_of(Floats a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Floats round_even(Floats a) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.low, kMode), _mm256_round_ps(a.high, kMode)};
}
inline __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline __m256 times_power(__m256 x, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    x = _mm256_mul_ps(x, power_of_two(half));
    return _mm256_mul_ps(x, power_of_two(_mm256_sub_epi32(whole, half)));
}
// x * 2^n for whole n in [-150, 129], in two steps that each stay in range.
inline Floats times_power_of_two(Floats x, Floats n) {
    return {times_power(x.low, n.low), times_power(x.high, n.high)};
}
inline float sum_of(Floats x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest_of(Floats x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
// Of both vectors; a NaN or infinity counts as larger than any number.
inline float largest_magnitude(Floats a, Floats b) {
    const Floats x = abs_of(a), y = abs_of(b);
    const __m256i eight =
        _mm256_max_epi32(_mm256_max_epi32(_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)),
                         _mm256_max_epi32(_mm256_castps_si256(y.low), _mm256_castps_si256(y.high)));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(four));
}
// The sums of each.
inline void sums_of(Floats a, Floats b, float& sum_a, float& sum_b) {
    const __m256 both = _mm256_hadd_ps(_mm256_add_ps(a.low, a.high), _mm256_add_ps(b.low, b.high));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehdup_ps(four));
    sum_a = _mm_cvtss_f32(two);
    sum_b = _mm_cvtss_f32(_mm_movehl_ps(two, two));
}
inline void store_i8(int8_t* p, Floats x) {
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline __m256i bf16_bits(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(64));
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
}
inline void store_bf16(uint16_t* p, Floats x) {
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(bf16_bits(x.low), bf16_bits(x.high)), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}
inline Floats load_f16(const uint8_t* p) {
    return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 16))};
}
inline Floats load_u8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p))),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p + 8)))};
}
inline Floats load_i8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p + 8)))};
}

inline Codes load_codes(const uint8_t* p) {
    return {load_256(p), load_256(p + 32)};
}
inline Codes low_nibbles(Codes x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.low, mask), _mm256_and_si256(x.high, mask)};
}
inline Codes high_nibbles(Codes x) {
    return low_nibbles({_mm256_srli_epi16(x.low, 4), _mm256_srli_epi16(x.high, 4)});
}
// 32 bits to 32 bytes of 0 or `value`.
inline __m256i spread_bits(const uint8_t* p, __m256i value) {
    int32_t bits;
    __builtin_memcpy(&bits, p, 4);
    const __m256i which =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m256i spread =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), which), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), value);
}
inline Codes add_bit(Codes x, const uint8_t* p, int value) {
    const __m256i bytes = _mm256_set1_epi8(static_cast<char>(value));
    return {_mm256_or_si256(x.low, spread_bits(p, bytes)),
            _mm256_or_si256(x.high, spread_bits(p + 4, bytes))};
}
template <int kShift>
inline __m256i pair_bits(__m256i pairs) {
    const __m256i moved = kShift < 4 ? _mm256_slli_epi16(pairs, kShift < 4 ? 4 - kShift : 0)
                                     : _mm256_srli_epi16(pairs, kShift < 4 ? 0 : kShift - 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(48));
}
template <int kShift>
inline Codes add_pair(Codes x, Codes pairs) {
    return {_mm256_or_si256(x.low, pair_bits<kShift>(pairs.low)),
            _mm256_or_si256(x.high, pair_bits<kShift>(pairs.high))};
}
inline Codes look_up(const uint8_t* table, Codes x) {
    const __m256i values = _mm256_broadcastsi128_si256(load_128(table));
    return {_mm256_shuffle_epi8(values, x.low), _mm256_shuffle_epi8(values, x.high)};
}

// Byte k of each row's four.
template <int k>
inline Ints byte_of(Codes x) {
    const __m256i mask = _mm256_set1_epi32(255);
    return {_mm256_and_si256(_mm256_srli_epi32(x.low, 8 * k), mask),
            _mm256_and_si256(_mm256_srli_epi32(x.high, 8 * k), mask)};
}

inline Ints int_zero() {
    return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
template <int kLog2>
inline Ints shifted(int32_t x) {
    const __m256i v = _mm256_slli_epi32(_mm256_set1_epi32(x), kLog2);
    return {v, v};
}
inline Floats to_floats(Ints x) {
    return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
inline __m256i splat_four(const int8_t* q) {
    int32_t four;
    __builtin_memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

inline Doubles splat_double(double x) {
    return {_mm256_set1_pd(x), _mm256_set1_pd(x)};
}
inline Doubles load(const double* p) {
    return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
inline void store_rounded(float* p, Doubles x) {
    _mm_storeu_ps(p, _mm256_cvtpd_ps(x.low));
    _mm_storeu_ps(p + 4, _mm256_cvtpd_ps(x.high));
}
inline Doubles add(Doubles a, Doubles b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}
inline Doubles sub(Doubles a, Doubles b) {
    return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
}
inline Doubles mul(Doubles a, Doubles b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
inline Doubles round_even(Doubles x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_pd(x.low, kMode), _mm256_round_pd(x.high, kMode)};
}
inline Doubles floor_of(Doubles x) {
    return {_mm256_floor_pd(x.low), _mm256_floor_pd(x.high)};
}
