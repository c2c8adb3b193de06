// The weight table: what each weight is called in Hugging Face checkpoints and in GGUF files, its
// shape, and where else it may hide (inside a fused tensor). Names of ours are Hugging Face's.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mixers/mixer.h"
#include "model/model_spec.h"

namespace bifocal {

// The tensors of a checkpoint under their own names, from whatever files it has.
struct Checkpoint {
    WeightMap tensors;
    std::string where;          // for errors: the path
    bool is_gguf = false;       // which column of the table names its tensors
    bool is_qk_paired = false;  // rows of q and k are stored as (pair, half), see unpaired_rows()
};

inline constexpr std::string_view kSinks = "self_attn.sinks";  // learned sink logits

// Sizes that shapes are written in.
enum class Dim : uint8_t {
    none,
    vocab,
    d_model,
    d_ff,
    q_rows,
    gated_q_rows,  // q_rows, twice as many with an output gate
    kv_rows,
    head_dim,
    heads,
    // Of a checkpoint's own linear layers; `group`: of one key head.
    key_heads,
    key_dim,
    group_heads,   // value heads
    group_values,  // their elements
};

// One layer's or the model's weight.
struct WeightRow {
    std::string_view name;
    std::string_view gguf;
    Dim shape[2] = {Dim::none, Dim::none};  // outermost first; none: no such dimension
    // Rows of one tensor, in this order; `part` says which are ours, the first of `n_parts`.
    std::string_view fused = {}, fused_gguf = {};
    std::vector<Dim> parts = {};
    int part = 0;
    enum class When : uint8_t { always, post_norm, no_post_norm } when = When::always;
    bool turns = false;  // rows that RoPE rotates
    int n_parts = 1;
    Dim groups = Dim::none;            // the fused tensor is as many such stacks, see unstacked()
    std::string_view other_gguf = {};  // what some architectures call it
    std::string_view other = {};       // what some Hugging Face folders call it
    bool gguf_is_rate = false;         // GGUF files hold -exp of it
};

// What the bytes of a tensor outside the table are.
enum class Stored : uint8_t {
    numbers,    // of a type that weights have
    codes,      // u8, two codes of 4 bits each
    exponents,  // u8, none of them 255
};

std::span<const WeightRow> layer_weight_rows();
std::span<const WeightRow> model_weight_rows();
// Null: not in the table, so only Hugging Face checkpoints can have it, under the same name.
const WeightRow* find_layer_row(std::string_view name, const LayerContext& context);

int64_t dim_size(Dim dim, const ModelSpec& spec, const LayerSpec& layer);

// Finds weights by our names and keeps count of what was used.
class WeightFinder {
  public:
    WeightFinder(const Checkpoint& checkpoint, const ModelSpec& spec);

    bool has(std::string_view stored_name) const {
        return checkpoint_.tensors.contains(stored_name);
    }
    // A weight of the model: "model.norm.weight". An absent one that is not required gives a tensor
    // without bytes.
    Result<Tensor> model_weight(std::string_view name, bool required);
    // A weight of layer `layer`: "self_attn.q_proj.weight", of exactly this shape.
    Result<Tensor> layer_weight(int64_t layer, const WeightSpec& weight);
    // A feed-forward weight or norm, whose shape the table knows.
    Result<Tensor> layer_weight(int64_t layer, std::string_view name, bool required);

    // Tensors of layer `layer` that the table does not list, under the names that this kind of file
    // has for them.
    bool is_gguf() const { return checkpoint_.is_gguf; }
    bool has_layer_tensor(int64_t layer, std::string_view name) const;
    Result<Tensor> layer_tensor(int64_t layer, std::string_view name,
                                const std::vector<int64_t>& shape, Stored stored = Stored::numbers);

    // Names of tensors that nobody asked for, in order.
    std::vector<std::string> unused() const;

  private:
    std::string layer_prefix(int64_t layer) const;
    Result<Tensor> find(const WeightRow& row, std::string_view layer_prefix, const LayerSpec& layer,
                        const std::vector<int64_t>& shape, bool required,
                        const std::string& hint = {}, Stored holds = Stored::numbers);

    const Checkpoint& checkpoint_;
    const ModelSpec& spec_;
    std::string prefix_;  // of Hugging Face names: "model."
    std::set<std::string, std::less<>> used_;
};

// Rows of each head from (pair, half) to (half, pair) order, bytes as they are. GGUF files of some
// architectures store q and k for a rotation of neighbours (2j, 2j + 1); ours, like Hugging Face's,
// turns (j, j + D/2), so row h·D/2 + j of ours is row 2j + h of theirs.
Tensor unpaired_rows(const Tensor& stored, int64_t head_dim);

// Parts [first, last) of a tensor whose rows are `n_groups` stacks of parts of these sizes: the
// first part of every group, then the next one. Qwen3-Next stores what it projects for a key head
// together: [q, k, v of its value heads, z of them].
Tensor unstacked(const Tensor& stored, int64_t n_groups, std::span<const int64_t> parts, int first,
                 int last);

}  // namespace bifocal
