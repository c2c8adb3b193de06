// The table of inner kernels, one for each kernel family (core/cpu_features.h). All families run
// the same algorithms (algorithms.h) on vectors of 16 lanes and give the same bits; they differ in
// how many instructions a vector takes.
//
// This header is read by files compiled for processors that we may not be on. It must hold no
// inline functions: the linker could keep the copy that does not run here.
#pragma once

#include <cstdint>

namespace bifocal {
enum class Isa;
}

namespace bifocal::ops {

// A weight matrix is stored as panels of 16 rows; a row is a lane.
inline constexpr int kPanelRows = 16;

// Columns (rows of x) go through a panel in groups of these sizes, largest first.
inline constexpr int kGroupSizes[] = {12, 8, 4, 2, 1};
inline constexpr int kMaxGroup = 12;

// 32 quantised activations: q[i] * d stands for x[i].
struct ActivationBlock {
    int8_t q[32];
    float d;
    float sum;            // d * (q[0] + ... + q[31]), for minima
    int32_t neg_sum;      // -(q[0] + ... + q[31]), for offsets of codes
    int32_t neg_sum_low;  // the same of the first 16
};
inline constexpr int kBlock = 32;

// Packed weights. A unit covers 16 rows times 32 or 256 columns. `codes` of 4 bits: 4 vectors of 64
// bytes; byte 4 * row + k of vector j holds column 4 * j + k in its low half and 4 * (j + 4) + k in
// its high half. `fifths`: 8 masks of 64 bits, bit 4 * row + k of mask g is column 4 * g + k.
// `pairs`: 2 vectors; byte 4 * row + k of vector h has column 4 * (4 * h + i) + k in bits 2i, 2i+1.
enum class Packing : int {
    q4_0,   // codes 256, d f16 x 16
    q4_1,   // codes 256, d f16 x 16, m f16 x 16
    q5_0,   // codes 256, fifths 64, d f16 x 16
    q5_1,   // codes 256, fifths 64, d f16 x 16, m f16 x 16
    q8_0,   // bytes 512 (value + 128; vector g holds columns 4 * g + k), d f16 x 16
    mxfp4,  // codes 256, half scale bf16 x 16
    q4_k,   // d f16 x 16, dmin f16 x 16, then 8 of: codes 256, scale u8 x 16, min u8 x 16
    q5_k,   // d f16 x 16, dmin f16 x 16, then 8 of: codes 256, fifths 64, scale, min u8 x 16
    q6_k,   // d f16 x 16, then 8 of: codes 256, pairs 128, scale i8 x 16 of each half
};
inline constexpr int kPackings = 9;
inline constexpr int kUnitBytes[kPackings] = {288, 320, 352, 384, 544, 288, 2368, 2880, 3360};
inline constexpr int kUnitBlocks[kPackings] = {1, 1, 1, 1, 1, 1, 8, 8, 8};

// One panel times one group of columns; out: [n_columns, 16], overwritten.
// x: [n_blocks, n_columns] ActivationBlock
using QuantTile = void (*)(const uint8_t* panel, int64_t n_blocks, const ActivationBlock* x,
                           int n_columns, float* out);
// The same for plain weights, panel [n_k, 16] of the dtype; x: [n_k, n_columns]; adds to out.
using FloatTile = void (*)(const void* panel, int64_t n_k, const float* x, int n_columns,
                           float* out);

// The weights of n_blocks blocks from `units` on, bit-equal to core/dequant.h; out: [32 n_blocks,
// 16] REQUIRES: n_blocks fills whole units.
using DequantTile = void (*)(const uint8_t* units, int64_t n_blocks, float* out);

// C = A B, or C += A B: c[i, j] takes a[i, k] b[k, j] for k = 0, 1, ... in this order.
struct SmallProduct {
    int64_t n_rows, n_columns, n_inner;
    const float* a;  // a[i, k] at i * a_row + k * a_inner
    int64_t a_row, a_inner;
    const float* b;  // rows of n_columns, b_row apart
    int64_t b_row;
    float* c;  // rows of n_columns, c_row apart
    int64_t c_row;
    bool accumulate;
};

// One token of a state of the linear family: S = diag(decay) S + k uᵀ, then y_g = Sᵀ q_g.
struct StateStep {
    int64_t key_dim, value_dim, n_queries;
    float* s;            // [K, V]
    const float* decay;  // [K], or one number if decay_step is 0
    int64_t decay_step;  // 1 or 0
    const float* k;      // [K]
    const float* u;      // [V]
    const float* q;      // [n_queries, K], rows q_row apart
    int64_t q_row;
    float* y;  // [n_queries, V], rows y_row apart
    int64_t y_row;
};

struct KernelSet {
    // Linear
    QuantTile quant_tile[kPackings];
    DequantTile dequant_tile[kPackings];
    FloatTile f32_tile, f16_tile, bf16_tile;
    // y = (y if `accumulate`) + (sums + bias), bias null or [16]; sums: [n_columns, 16]
    // y: n_columns rows of 16, `stride` apart
    void (*write_tile)(const float* sums, int n_columns, const float* bias, bool accumulate,
                       float* y, int64_t stride);
    // Block b of x goes to blocks[b * stride].
    void (*quantise)(const float* x, int64_t n_blocks, ActivationBlock* blocks, int64_t stride);

    // Vectors of n elements
    float (*dot)(const float* a, const float* b, int64_t n);
    float (*dot_bf16)(const float* a, const uint16_t* b, int64_t n);
    void (*axpy)(float w, const float* x, float* y, int64_t n);
    void (*axpy_bf16)(float w, const uint16_t* x, float* y, int64_t n);
    void (*scale)(float w, float* x, int64_t n);
    float (*max)(const float* x, int64_t n);
    float (*exp_sum)(float* x, int64_t n, float max);
    void (*to_bf16)(const float* x, uint16_t* y, int64_t n);
    void (*norm_scale)(const float* x, float scale, const float* weight, float* y, int64_t n);
    void (*add)(const float* x, float* y, int64_t n);
    void (*silu_mul)(float* a, const float* b, int64_t n);
    void (*gelu_tanh_mul)(float* a, const float* b, int64_t n);
    void (*clamped_swiglu_mul)(float* a, const float* b, int64_t n);

    void (*small_product)(const SmallProduct& p);
    void (*state_step)(const StateStep& step);

    // cos and sin of pos * inv_freq[j], times factor; each correctly rounded but for a few in 10^7.
    void (*cos_sin)(const double* inv_freq, int64_t n, double pos, double factor, float* cos,
                    float* sin);
    // Turns the pairs (a[j], b[j]).
    void (*rotate)(const float* cos, const float* sin, float* a, float* b, int64_t n);
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvxVnniKernels;
extern const KernelSet kAvx512Kernels;
#endif

// REQUIRES: the processor has it.
const KernelSet& kernel_set(Isa isa);
// That of active_isa().
const KernelSet& kernels();

}  // namespace bifocal::ops
