// How a call runs: x is brought into groups of columns (int8 blocks for the fast path, floats for
// the exact one), then all (panel, batch of columns) pieces of all products are shared out among
// the threads. A piece multiplies a panel of 16 weight rows, or a few, with up to 120 columns,
// group by group.
#include "ops/linear.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/dequant.h"
#include "core/huge_memory.h"
#include "ops/kernels/kernels.h"
#include "ops/packing.h"

namespace bifocal::ops {

struct Linear::Impl {
    std::string name;
    int64_t n_out = 0, n_in = 0;
    DType dtype = DType::f32;
    HugeMemory panels;
    int64_t panel_size = 0;
    std::vector<float> bias;  // [out] or empty
    const KernelSet* kernels = nullptr;
    Isa isa = Isa::portable;
    std::optional<Packing> packing;  // of quantised types
    bool int8 = false;               // against activations in int8 blocks
    FloatTile float_tile = nullptr;  // otherwise: of the dtype, or of dequantised tiles
    DequantTile dequant_tile = nullptr;

    const std::byte* panel(int64_t i) const { return panels.bytes.data() + i * panel_size; }
    // Where column k of a panel starts. REQUIRES: k is a multiple of 256.
    const std::byte* panel_at(int64_t i, int64_t k) const {
        return panel(i) + panel_bytes(dtype, k);
    }
};

Linear::Linear() = default;
Linear::~Linear() = default;
Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;

namespace {

constexpr int64_t kBatchColumns = 10 * kMaxGroup;  // whole groups
constexpr int64_t kFloatChunk = 256;  // columns of weights summed before they join the total
constexpr size_t kMaxCalls = 16;

std::string shape_text(const Tensor& tensor) {
    return fmt::format("{} [{}]", dtype_info(tensor.dtype).name, fmt::join(tensor.shape, ", "));
}

FloatTile float_tile_of(DType dtype, const KernelSet& kernels) {
    if (dtype == DType::f16) return kernels.f16_tile;
    if (dtype == DType::bf16) return kernels.bf16_tile;
    return kernels.f32_tile;
}

}  // namespace

Result<Linear> Linear::make(std::string name, const Tensor& weight, const Tensor* bias,
                            Precision precision, std::optional<Isa> isa) {
    const auto bad = [&](std::string what, std::string expected, std::string got) {
        return Error{.what = std::move(what),
                     .where = "tensor '" + name + "'",
                     .expected = std::move(expected),
                     .got = std::move(got)};
    };
    if (!isa) {
        if (!chosen_isa().ok()) return chosen_isa().error();
        isa = *chosen_isa();
    }
    if (!isa_available(*isa, cpu_features())) {
        return bad("kernel family not available here", "one this processor has",
                   std::string(isa_name(*isa)));
    }
    if (weight.shape.size() != 2 || weight.shape[0] <= 0 || weight.shape[1] <= 0) {
        return bad("not a weight matrix", "[out, in]", shape_text(weight));
    }
    if (!is_real(weight.dtype) || weight.dtype == DType::f64) {
        return bad("unsupported weight type", "f32, f16, bf16 or a quantised type",
                   shape_text(weight));
    }
    const int64_t n_out = weight.shape[0];
    const int64_t n_in = weight.shape[1];
    const int block = dtype_info(weight.dtype).block_elems;
    if (n_in % block != 0) {
        return bad("rows do not fill whole blocks", fmt::format("a multiple of {}", block),
                   shape_text(weight));
    }
    if (static_cast<int64_t>(weight.bytes.size()) != dtype_bytes(weight.dtype, n_out * n_in)) {
        return bad("wrong number of bytes",
                   fmt::format("{}", dtype_bytes(weight.dtype, n_out * n_in)),
                   fmt::format("{}", weight.bytes.size()));
    }

    auto impl = std::make_unique<Impl>();
    impl->kernels = &kernel_set(*isa);
    impl->isa = *isa;
    if (bias != nullptr) {
        if (bias->shape != std::vector<int64_t>{n_out} || !is_real(bias->dtype) ||
            is_quantised(bias->dtype)) {
            return bad("bias does not fit", fmt::format("floats [{}]", n_out), shape_text(*bias));
        }
        impl->bias.resize(static_cast<size_t>(n_out));
        bifocal::dequantise_row(bias->dtype, bias->bytes.data(), impl->bias);
    }
    impl->n_out = n_out;
    impl->n_in = n_in;
    impl->dtype = weight.dtype;
    impl->packing = packing_of(weight.dtype);
    impl->int8 = impl->packing && precision == Precision::fast;
    if (impl->packing) {
        impl->dequant_tile = impl->kernels->dequant_tile[static_cast<int>(*impl->packing)];
    }
    impl->float_tile = float_tile_of(weight.dtype, *impl->kernels);

    impl->panel_size = panel_bytes(weight.dtype, n_in);
    const int64_t n_panels = panel_count(n_out);
    impl->panels = allocate_huge(static_cast<size_t>(n_panels * impl->panel_size));
    for (int64_t i = 0; i < n_panels; ++i) {
        pack_panel(weight, i * kPanelRows,
                   impl->panels.bytes.subspan(static_cast<size_t>(i * impl->panel_size),
                                              static_cast<size_t>(impl->panel_size)));
    }
    impl->name = std::move(name);
    Linear linear;
    linear.impl_ = std::move(impl);
    return linear;
}

int64_t Linear::n_in() const {
    return impl_->n_in;
}
int64_t Linear::n_out() const {
    return impl_->n_out;
}
DType Linear::dtype() const {
    return impl_->dtype;
}
const std::string& Linear::name() const {
    return impl_->name;
}
int64_t Linear::weight_bytes() const {
    return static_cast<int64_t>(impl_->panels.bytes.size());
}

std::string Linear::kernel() const {
    const std::string_view how = impl_->int8      ? "int8"
                                 : impl_->packing ? "f32, dequantised by tile"
                                                  : "f32";
    const std::string why = impl_->isa == active_isa() ? isa_reason() : "asked for";
    return fmt::format("{} 16-row {} × {} ({})", isa_name(impl_->isa), dtype_info(dtype()).name,
                       how, why);
}

void Linear::dequantise_row(int64_t i, std::span<float> out) const {
    const Impl& w = *impl_;
    BIFOCAL_CHECK(i >= 0 && i < w.n_out, "row {} of {}", i, w.n_out);
    BIFOCAL_CHECK(static_cast<int64_t>(out.size()) == w.n_in, "{} floats for a row of {}",
                  out.size(), w.n_in);
    const int64_t panel = i / kPanelRows;
    const int64_t lane = i % kPanelRows;
    alignas(kAlignment) float tile[kFloatChunk * kPanelRows];
    for (int64_t k = 0; k < w.n_in; k += kFloatChunk) {
        const int64_t n_k = std::min(kFloatChunk, w.n_in - k);
        const auto* at = reinterpret_cast<const uint8_t*>(w.panel_at(panel, k));
        if (w.packing) {
            w.dequant_tile(at, n_k / kBlock, tile);
            for (int64_t j = 0; j < n_k; ++j) out[k + j] = tile[kPanelRows * j + lane];
            continue;
        }
        const auto size = static_cast<size_t>(dtype_info(w.dtype).block_bytes);
        std::byte row[kFloatChunk * sizeof(float)];
        for (int64_t j = 0; j < n_k; ++j) {
            std::memcpy(row + j * size, at + (kPanelRows * j + lane) * size, size);
        }
        bifocal::dequantise_row(w.dtype, row, out.subspan(k, n_k));
    }
}

namespace {

// A group of columns of x: [begin, begin + size).
struct Group {
    int64_t begin;
    int size;
};
Group group_at(int64_t begin, int64_t end) {
    for (const int size : kGroupSizes) {
        if (end - begin >= size) return {begin, size};
    }
    return {begin, 1};
}
// Calls f for each group of columns [begin, end). Only the last rows of x form groups smaller than
// kMaxGroup, so a column's group is the same wherever a loop over groups begins.
template <class F>
void for_each_group(int64_t begin, int64_t end, F f) {
    while (begin < end) {
        const Group group = group_at(begin, end);
        f(group);
        begin += group.size;
    }
}

// x in groups: block b (or element k) of column c of a group at `begin` stands at
// (begin * n + b * size + c), n blocks or elements a row.
struct PackedX {
    const ActivationBlock* blocks = nullptr;
    const float* floats = nullptr;
};

// Rows [begin, end) of x, where begin starts a group and end ends one.
void quantise_rows(View<const float, 2> x, int64_t begin, int64_t end, const KernelSet& kernels,
                   ActivationBlock* out) {
    const int64_t n_blocks = x.shape[1] / kBlock;
    for_each_group(begin, end, [&](Group group) {
        for (int c = 0; c < group.size; ++c) {
            kernels.quantise(x.data + (group.begin + c) * x.stride[0], n_blocks,
                             out + group.begin * n_blocks + c, group.size);
        }
    });
}

void gather_rows(View<const float, 2> x, int64_t begin, int64_t end, float* out) {
    const int64_t n_in = x.shape[1];
    for_each_group(begin, end, [&](Group group) {
        float* to = out + group.begin * n_in;
        for (int c = 0; c < group.size; ++c) {
            const float* from = x.data + (group.begin + c) * x.stride[0];
            for (int64_t k = 0; k < n_in; ++k) to[k * group.size + c] = from[k];
        }
    });
}

// With few columns the kernels prefetch for themselves; with many they stay on a panel for long
// enough that the next one can be fetched beside.
void prefetch_panel(const Linear::Impl& w, int64_t panel) {
    if (panel * kPanelRows >= w.n_out) return;
    const std::byte* data = w.panel(panel);
    const int64_t bytes = std::min<int64_t>(w.panel_size, 16 << 10);
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i);
}

// y = (or +=) sums + bias for 16 rows of the weight and columns [begin, end).
void write_columns(const LinearCall& call, int64_t panel, int64_t begin, int64_t end,
                   const float* sums) {
    const Linear::Impl& w = call.linear->impl();
    const int64_t row = panel * kPanelRows;
    const float* bias = w.bias.empty() ? nullptr : w.bias.data() + row;
    const int64_t stride = call.y.stride[0];
    float* y = call.y.data + begin * stride + row;
    if (row + kPanelRows <= w.n_out) {
        w.kernels->write_tile(sums, static_cast<int>(end - begin), bias, call.accumulate, y,
                              stride);
        return;
    }
    for (int64_t t = begin; t < end; ++t, sums += kPanelRows, y += stride) {
        for (int64_t r = 0; r < w.n_out - row; ++r) {
            float value = sums[r];
            if (bias != nullptr) value += bias[r];
            if (call.accumulate) value += y[r];
            y[r] = value;
        }
    }
}

// Panels [panel, end_panel) with the columns [begin, end). A group of columns meets all panels
// before the next one comes: both fit the first cache.
void quant_piece(const LinearCall& call, int64_t panel, int64_t end_panel, int64_t begin,
                 int64_t end, const ActivationBlock* x) {
    const Linear::Impl& w = call.linear->impl();
    const int64_t n_blocks = w.n_in / kBlock;
    const QuantTile tile = w.kernels->quant_tile[static_cast<int>(*w.packing)];
    alignas(kAlignment) float sums[kMaxGroup * kPanelRows];
    for_each_group(begin, end, [&](Group group) {
        for (int64_t p = panel; p < end_panel; ++p) {
            tile(reinterpret_cast<const uint8_t*>(w.panel(p)), n_blocks, x + group.begin * n_blocks,
                 group.size, sums);
            write_columns(call, p, group.begin, group.begin + group.size, sums);
        }
    });
}

// One panel with the columns [begin, end), in floats.
void float_piece(const LinearCall& call, int64_t panel, int64_t begin, int64_t end,
                 const float* x) {
    const Linear::Impl& w = call.linear->impl();
    const int64_t n_in = w.n_in;
    alignas(kAlignment) float tile[kFloatChunk * kPanelRows];
    alignas(kAlignment) float sums[kBatchColumns * kPanelRows];
    std::memset(sums, 0, static_cast<size_t>(end - begin) * kPanelRows * sizeof(float));
    for (int64_t k = 0; k < n_in; k += kFloatChunk) {
        const int64_t n_k = std::min(kFloatChunk, n_in - k);
        const void* weights = w.panel_at(panel, k);
        if (w.packing) {
            w.dequant_tile(static_cast<const uint8_t*>(weights), n_k / kBlock, tile);
            weights = tile;
        }
        for_each_group(begin, end, [&](Group group) {
            w.float_tile(weights, n_k, x + group.begin * n_in + k * group.size, group.size,
                         sums + (group.begin - begin) * kPanelRows);
        });
    }
    write_columns(call, panel, begin, end, sums);
}

// Panels that one piece covers: with many columns as many as fit the first cache beside a group of
// them.
int64_t panels_per_piece(const Linear::Impl& w, int64_t n_rows) {
    if (!w.int8 || n_rows < kMaxGroup) return 1;
    return std::clamp<int64_t>((24 << 10) / w.panel_size, 1, 4);
}

int64_t piece_count(const Linear::Impl& w, int64_t n_rows) {
    const int64_t step = panels_per_piece(w, n_rows);
    const int64_t n_batches = (n_rows + kBatchColumns - 1) / kBatchColumns;
    return (panel_count(w.n_out) + step - 1) / step * n_batches;
}

// Piece i of a product: batches of columns run fastest.
void run_piece(const LinearCall& call, int64_t i, int64_t n_rows, const PackedX& x) {
    const Linear::Impl& w = call.linear->impl();
    const int64_t step = panels_per_piece(w, n_rows);
    const int64_t n_batches = (n_rows + kBatchColumns - 1) / kBatchColumns;
    const int64_t panel = i / n_batches * step;
    const int64_t end_panel = std::min(panel + step, panel_count(w.n_out));
    const int64_t begin = i % n_batches * kBatchColumns;
    const int64_t end = std::min(n_rows, begin + kBatchColumns);
    if (n_rows > 2) {
        for (int64_t p = end_panel; p < end_panel + step; ++p) prefetch_panel(w, p);
    }
    if (w.int8) {
        quant_piece(call, panel, end_panel, begin, end, x.blocks);
    } else {
        float_piece(call, panel, begin, end, x.floats);
    }
}

}  // namespace

void linear_forward(View<const float, 2> x, std::span<const LinearCall> calls, Exec& exec) {
    const int64_t n_rows = x.shape[0];
    const int64_t n_in = x.shape[1];
    if (n_rows == 0 || calls.empty()) return;
    BIFOCAL_CHECK(calls.size() <= kMaxCalls, "{} products in one call", calls.size());
    BIFOCAL_CHECK(x.stride[1] == 1, "x: elements of a row are {} apart", x.stride[1]);

    std::array<int64_t, kMaxCalls + 1> first{};  // piece of each call
    bool any_int8 = false;
    bool any_float = false;
    for (size_t i = 0; i < calls.size(); ++i) {
        const Linear& linear = *calls[i].linear;
        check_shape("x", x.shape, {n_rows, linear.n_in()});
        check_shape("y", calls[i].y.shape, {n_rows, linear.n_out()});
        BIFOCAL_CHECK(calls[i].y.stride[1] == 1, "y: elements of a row are {} apart",
                      calls[i].y.stride[1]);
        (linear.impl().int8 ? any_int8 : any_float) = true;
        first[i + 1] = first[i] + piece_count(linear.impl(), n_rows);
    }

    Workspace::Frame frame(exec.workspace);
    PackedX packed;
    if (any_int8) {
        auto blocks = exec.workspace.take<ActivationBlock>(n_rows * (n_in / kBlock));
        const KernelSet& kernels = *calls[0].linear->impl().kernels;
        exec.pool.parallel_for(n_rows, kMaxGroup, [&](int64_t begin, int64_t end, int) {
            quantise_rows(x, begin, end, kernels, blocks.data());
        });
        packed.blocks = blocks.data();
    }
    if (any_float) {
        if (n_rows == 1) {
            packed.floats = x.data;
        } else {
            auto floats = exec.workspace.take<float>(n_rows * n_in);
            exec.pool.parallel_for(n_rows, kMaxGroup, [&](int64_t begin, int64_t end, int) {
                gather_rows(x, begin, end, floats.data());
            });
            packed.floats = floats.data();
        }
    }

    const int64_t n_pieces = first[calls.size()];
    const int64_t grain = std::clamp<int64_t>(n_pieces / (exec.pool.size() * 8), 1, 16);
    exec.pool.parallel_for(n_pieces, grain, [&](int64_t begin, int64_t end, int) {
        size_t i = 0;
        for (int64_t p = begin; p < end; ++p) {
            while (p >= first[i + 1]) ++i;
            run_piece(calls[i], p - first[i], n_rows, packed);
        }
    });
}

size_t linear_workspace_bytes(int64_t n_rows, int64_t n_in) {
    const int64_t blocks = n_rows * ((n_in + kBlock - 1) / kBlock);
    return align_up(static_cast<size_t>(blocks) * sizeof(ActivationBlock)) +
           align_up(static_cast<size_t>(n_rows * n_in) * sizeof(float));
}

}  // namespace bifocal::ops
