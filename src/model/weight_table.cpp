#include "model/weight_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

#include "core/check.h"
#include "core/dequant.h"

namespace bifocal {
namespace {

using enum Dim;
using When = WeightRow::When;

const std::vector<Dim> kQkv{gated_q_rows, kv_rows, kv_rows};
const std::vector<Dim> kGateUp{d_ff, d_ff};
const std::vector<Dim> kQkvz{key_dim, key_dim, group_values, group_values};
const std::vector<Dim> kBa{group_heads, group_heads};

// clang-format off
const WeightRow kLayerRows[] = {
    {"input_layernorm.weight", "attn_norm.weight", {d_model}},

    {"self_attn.q_proj.weight", "attn_q.weight", {gated_q_rows, d_model},
     "self_attn.qkv_proj.weight", "attn_qkv.weight", kQkv, 0, When::always, true},
    {"self_attn.k_proj.weight", "attn_k.weight", {kv_rows, d_model},
     "self_attn.qkv_proj.weight", "attn_qkv.weight", kQkv, 1, When::always, true},
    {"self_attn.v_proj.weight", "attn_v.weight", {kv_rows, d_model},
     "self_attn.qkv_proj.weight", "attn_qkv.weight", kQkv, 2},
    {"self_attn.q_proj.bias", "attn_q.bias", {gated_q_rows},
     "self_attn.qkv_proj.bias", "attn_qkv.bias", kQkv, 0, When::always, true},
    {"self_attn.k_proj.bias", "attn_k.bias", {kv_rows},
     "self_attn.qkv_proj.bias", "attn_qkv.bias", kQkv, 1, When::always, true},
    {"self_attn.v_proj.bias", "attn_v.bias", {kv_rows},
     "self_attn.qkv_proj.bias", "attn_qkv.bias", kQkv, 2},
    {"self_attn.o_proj.weight", "attn_output.weight", {d_model, q_rows}},
    {"self_attn.o_proj.bias", "attn_output.bias", {d_model}},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", {head_dim}},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", {head_dim}},
    {kSinks, "attn_sinks.weight", {heads}},
    // Latent keys. Their shapes, like those of linear layers, are the mixer's to know.
    {"self_attn.kv_a_proj_with_mqa.weight", ""},
    {"self_attn.kv_a_layernorm.weight", ""},
    {"self_attn.kv_b_proj.weight", ""},

    // Linear layers of Kimi-Linear, beside q_proj, k_proj, v_proj and o_proj.
    {"self_attn.q_conv1d.weight", ""},
    {"self_attn.k_conv1d.weight", ""},
    {"self_attn.v_conv1d.weight", ""},
    {"self_attn.A_log", ""},
    {"self_attn.dt_bias", ""},
    {"self_attn.f_a_proj.weight", ""},
    {"self_attn.f_b_proj.weight", ""},
    {"self_attn.b_proj.weight", ""},
    {"self_attn.g_a_proj.weight", ""},
    {"self_attn.g_b_proj.weight", ""},
    {"self_attn.o_norm.weight", ""},

    // Those of the Qwen families.
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight", {},
     "linear_attn.in_proj_qkvz.weight", "ssm_in.weight", kQkvz, 0, When::always, false, 3, key_heads},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight", {},
     "linear_attn.in_proj_qkvz.weight", "ssm_in.weight", kQkvz, 3, When::always, false, 1, key_heads},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight", {},
     "linear_attn.in_proj_ba.weight", "ssm_ba.weight", kBa, 0, When::always, false, 1, key_heads},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight", {},
     "linear_attn.in_proj_ba.weight", "ssm_ba.weight", kBa, 1, When::always, false, 1, key_heads},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {.name = "linear_attn.A_log", .gguf = "ssm_a", .gguf_is_rate = true},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},

    // One name, two meanings: before the feed-forward, or on the mixer's result.
    {.name = "post_attention_layernorm.weight", .gguf = "ffn_norm.weight", .shape = {d_model},
     .when = When::no_post_norm, .other_gguf = "post_attention_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", {d_model}, {}, {}, {}, 0, When::post_norm},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", {d_model}, {}, {}, {}, 0, When::post_norm},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", {d_model}, {}, {}, {}, 0, When::post_norm},

    // transformers gives the dense layers of Kimi-Linear the other name.
    {.name = "mlp.gate_proj.weight", .gguf = "ffn_gate.weight", .shape = {d_ff, d_model},
     .fused = "mlp.gate_up_proj.weight", .fused_gguf = "ffn_up.weight", .parts = kGateUp, .part = 0,
     .other = "block_sparse_moe.gate_proj.weight"},
    {.name = "mlp.up_proj.weight", .gguf = "ffn_up.weight", .shape = {d_ff, d_model},
     .fused = "mlp.gate_up_proj.weight", .fused_gguf = "ffn_up.weight", .parts = kGateUp, .part = 1,
     .other = "block_sparse_moe.up_proj.weight"},
    {.name = "mlp.down_proj.weight", .gguf = "ffn_down.weight", .shape = {d_model, d_ff},
     .other = "block_sparse_moe.down_proj.weight"},
    {"mlp.gate_proj.bias", "ffn_gate.bias", {d_ff}},
    {"mlp.up_proj.bias", "ffn_up.bias", {d_ff}},
    {"mlp.down_proj.bias", "ffn_down.bias", {d_model}},
};

const WeightRow kModelRows[] = {
    {"model.embed_tokens.weight", "token_embd.weight", {vocab, d_model}},
    {"model.norm.weight", "output_norm.weight", {d_model}},
    {"lm_head.weight", "output.weight", {vocab, d_model}},
};
// clang-format on

std::string text(const std::vector<int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

// What stands for "model." in files of models that also see images.
std::string model_prefix(const Checkpoint& checkpoint) {
    for (const char* prefix : {"model.", "model.language_model.", "language_model.model."})
        if (checkpoint.tensors.contains(std::string(prefix) + "embed_tokens.weight")) return prefix;
    return "model.";
}

std::vector<int64_t> shape_of(const WeightRow& row, const ModelSpec& spec, const LayerSpec& layer) {
    std::vector<int64_t> shape;
    for (const Dim dim : row.shape)
        if (dim != none) shape.push_back(dim_size(dim, spec, layer));
    return shape;
}

}  // namespace

std::span<const WeightRow> layer_weight_rows() {
    return kLayerRows;
}
std::span<const WeightRow> model_weight_rows() {
    return kModelRows;
}

const WeightRow* find_layer_row(std::string_view name, const LayerContext& context) {
    for (const WeightRow& row : kLayerRows) {
        const bool applies =
            row.when == When::always || (row.when == When::post_norm) == context.post_norm;
        if (row.name == name && applies) return &row;
    }
    return nullptr;
}

int64_t dim_size(Dim dim, const ModelSpec& spec, const LayerSpec& layer) {
    const LayerContext& context = layer.context;
    const LinearSizes& linear = spec.linear;
    switch (dim) {
        case none:
            return 0;
        case vocab:
            return spec.vocab_size;
        case d_model:
            return spec.d_model;
        case d_ff:
            return layer.d_ff;
        case q_rows:
            return context.n_heads * context.head_dim;
        case gated_q_rows:
            return (context.output_gate ? 2 : 1) * context.n_heads * context.head_dim;
        case kv_rows:
            return context.n_kv_heads * context.head_dim;
        case head_dim:
            return context.head_dim;
        case heads:
            return context.n_heads;
        case Dim::key_heads:
            return linear.key_heads;
        case Dim::key_dim:
            return linear.key_dim;
        case group_heads:
            return linear.value_heads / std::max<int64_t>(linear.key_heads, 1);
        case group_values:
            return dim_size(group_heads, spec, layer) * linear.value_dim;
    }
    return 0;
}

WeightFinder::WeightFinder(const Checkpoint& checkpoint, const ModelSpec& spec)
    : checkpoint_(checkpoint), spec_(spec), prefix_(model_prefix(checkpoint)) {}

Result<Tensor> WeightFinder::model_weight(std::string_view name, bool required) {
    for (const WeightRow& row : kModelRows) {
        if (row.name != name) continue;
        static const LayerSpec no_layer;
        WeightRow stored = row;
        std::string renamed(row.name);
        if (prefix_ != "model." && renamed.starts_with("model."))
            renamed = prefix_ + renamed.substr(6);
        stored.name = renamed;
        return find(stored, "", no_layer, shape_of(row, spec_, no_layer), required);
    }
    BIFOCAL_CHECK(false, "'{}' is not in the weight table", name);
}

Result<Tensor> WeightFinder::layer_weight(int64_t layer, const WeightSpec& weight) {
    const LayerSpec& spec = spec_.layers[layer];
    const WeightRow* row = find_layer_row(weight.name, spec.context);
    WeightRow unlisted;
    if (!row) {
        unlisted.name = weight.name;
        row = &unlisted;
    }
    // A layout's own weights, which no plain checkpoint has.
    const bool is_new = row == &unlisted ||
                        (weight.name.starts_with("linear_attn.") && spec_.linear.key_heads == 0);
    const std::string hint =
        is_new ? "'bifocal convert' with this layout creates it, untrained" : "";
    return find(*row, layer_prefix(layer), spec, weight.shape, weight.required, hint);
}

std::string WeightFinder::layer_prefix(int64_t layer) const {
    return checkpoint_.is_gguf ? fmt::format("blk.{}.", layer)
                               : fmt::format("{}layers.{}.", prefix_, layer);
}

bool WeightFinder::has_layer_tensor(int64_t layer, std::string_view name) const {
    return has(layer_prefix(layer) + std::string(name));
}

Result<Tensor> WeightFinder::layer_tensor(int64_t layer, std::string_view name,
                                          const std::vector<int64_t>& shape, Stored stored) {
    const WeightRow unlisted{name, name};
    return find(unlisted, layer_prefix(layer), spec_.layers[layer], shape, true, {}, stored);
}

Result<Tensor> WeightFinder::layer_weight(int64_t layer, std::string_view name, bool required) {
    const LayerSpec& spec = spec_.layers[layer];
    const WeightRow* row = find_layer_row(name, spec.context);
    BIFOCAL_CHECK(row, "'{}' is not in the weight table", name);
    return layer_weight(layer, {std::string(name), shape_of(*row, spec_, spec), required});
}

namespace {

// The one pattern of a quantised format that is no number by design: the exponent 255. They are
// `step` bytes apart.
Status check_exponents(const Tensor& tensor, int64_t step, const std::string& where) {
    for (size_t i = 0; i < tensor.bytes.size(); i += static_cast<size_t>(step))
        if (tensor.bytes[i] == std::byte{255})
            return Error{.what = "a block's scale is not a number",
                         .where = fmt::format("{}, byte {}", where, i),
                         .expected = "an exponent below 255",
                         .got = "255"};
    return {};
}

// GGUF leaves out dimensions of 1, and some checkpoints have more of them than others.
std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
    std::erase(shape, 1);
    return shape;
}

// log(-x) of every element: GGUF files hold A = -exp(A_log).
Result<Tensor> log_of_rates(const Tensor& stored, const std::string& where) {
    std::vector<float> values(static_cast<size_t>(stored.elems()));
    dequantise_row(stored.dtype, stored.bytes.data(), values);
    for (float& value : values) {
        if (!(value < 0) || !std::isfinite(value))
            return Error{.what = "a decay that is no decay",
                         .where = where,
                         .expected = "-exp of a number, below 0",
                         .got = fmt::format("{}", value)};
        value = std::log(-value);
    }
    return make_tensor_f32(stored.shape, values);
}

}  // namespace

Result<Tensor> WeightFinder::find(const WeightRow& row, std::string_view layer_prefix,
                                  const LayerSpec& layer, const std::vector<int64_t>& shape,
                                  bool required, const std::string& hint, Stored holds) {
    const bool gguf = checkpoint_.is_gguf;
    const auto lookup = [&](std::string_view name) -> std::pair<std::string, const Tensor*> {
        if (name.empty()) return {};
        std::string full = std::string(layer_prefix) + std::string(name);
        const auto found = checkpoint_.tensors.find(full);
        return {full, found == checkpoint_.tensors.end() ? nullptr : &found->second};
    };
    auto [name, stored] = lookup(gguf ? row.gguf : row.name);
    if (const std::string_view other_name = gguf ? row.other_gguf : row.other;
        !stored && !other_name.empty()) {
        auto other = lookup(other_name);
        if (other.second) std::tie(name, stored) = std::move(other);
    }
    const auto [fused_name, fused] = lookup(gguf ? row.fused_gguf : row.fused);

    std::vector<int64_t> parts;  // of one stack of the fused tensor
    for (const Dim dim : row.parts) parts.push_back(dim_size(dim, spec_, layer));
    const int64_t n_groups = row.groups == none ? 1 : dim_size(row.groups, spec_, layer);
    std::vector<int64_t> whole = shape, part = shape;  // of the fused tensor, and of ours in it
    whole[0] = n_groups * std::accumulate(parts.begin(), parts.end(), int64_t{0});
    if (!parts.empty())
        part[0] = n_groups * std::accumulate(parts.begin() + row.part,
                                             parts.begin() + row.part + row.n_parts, int64_t{0});
    const auto fits = [&](const Tensor& tensor) {
        return tensor.shape == shape || without_ones(tensor.shape) == without_ones(shape);
    };
    const auto wrong_shape = [&](const std::string& tensor, const std::vector<int64_t>& expected,
                                 const std::vector<int64_t>& got) {
        return Error{.what = "wrong shape",
                     .where = fmt::format("{}, tensor '{}'", checkpoint_.where, tensor),
                     .expected = text(expected),
                     .got = text(got)};
    };

    Tensor tensor;
    const bool is_alone = stored && fits(*stored);
    if (is_alone) {
        used_.insert(name);
        tensor = *stored;
        tensor.shape = shape;
    } else if (fused && fused->shape == whole && part == shape) {
        used_.insert(fused_name);
        tensor = unstacked(*fused, n_groups, parts, row.part, row.part + row.n_parts);
    } else if (stored) {
        return wrong_shape(name, shape, stored->shape);
    } else if (fused) {
        return fused->shape == whole ? wrong_shape(fused_name, shape, part)
                                     : wrong_shape(fused_name, whole, fused->shape);
    } else if (!required) {
        return Tensor{};
    } else {
        const std::string wanted = name.empty() ? std::string(row.name) : name;
        return Error{
            .what = "missing tensor",
            .where = fmt::format("{}, tensor '{}'", checkpoint_.where, wanted),
            .expected = text(shape),
            .hint = fused_name.empty() ? hint : fmt::format("'{}' would do as well", fused_name)};
    }
    const std::string where =
        fmt::format("{}, tensor '{}'", checkpoint_.where, is_alone ? name : fused_name);
    const bool is_packed = holds != Stored::numbers;
    if (is_packed ? tensor.dtype != DType::u8 : !is_real(tensor.dtype))
        return Error{.what = "unsupported type of a weight",
                     .where = where,
                     .expected = is_packed ? "u8" : "floating-point or quantised",
                     .got = std::string(dtype_info(tensor.dtype).name)};
    if (holds == Stored::exponents) BIFOCAL_TRY_STATUS(check_exponents(tensor, 1, where));
    if (tensor.dtype == DType::mxfp4)
        BIFOCAL_TRY_STATUS(check_exponents(tensor, dtype_info(DType::mxfp4).block_bytes, where));
    if (row.gguf_is_rate && gguf) return log_of_rates(tensor, where);
    if (row.turns && checkpoint_.is_qk_paired) return unpaired_rows(tensor, layer.context.head_dim);
    return tensor;
}

std::vector<std::string> WeightFinder::unused() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : checkpoint_.tensors)
        if (!used_.contains(name)) names.push_back(name);
    return names;
}

Tensor unpaired_rows(const Tensor& stored, int64_t head_dim) {
    std::byte* data = nullptr;
    Tensor ours = make_tensor(stored.dtype, stored.shape, &data);
    const int64_t bytes = stored.row_bytes(), half = head_dim / 2;
    for (int64_t head = 0; head < stored.shape[0]; head += head_dim)
        for (int64_t h = 0; h < 2; ++h)
            for (int64_t j = 0; j < half; ++j)
                std::memcpy(data + (head + h * half + j) * bytes,
                            stored.bytes.data() + (head + 2 * j + h) * bytes,
                            static_cast<size_t>(bytes));
    return ours;
}

Tensor unstacked(const Tensor& stored, int64_t n_groups, std::span<const int64_t> parts, int first,
                 int last) {
    int64_t begin = std::accumulate(parts.begin(), parts.begin() + first, int64_t{0});
    const int64_t rows = std::accumulate(parts.begin() + first, parts.begin() + last, int64_t{0});
    if (n_groups == 1) return stored.rows(begin, begin + rows);
    std::vector<int64_t> shape = stored.shape;
    shape[0] = n_groups * rows;
    std::byte* data = nullptr;
    Tensor ours = make_tensor(stored.dtype, std::move(shape), &data);
    for (int i = first; i < last; ++i) {
        const Tensor part = stored.rows_of_groups(n_groups, begin, begin + parts[i]);
        std::memcpy(data, part.bytes.data(), part.bytes.size());
        data += part.bytes.size();
        begin += parts[i];
    }
    return ours;
}

}  // namespace bifocal
