#include "mixers/bifocal/bifocal_mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "mixers/bifocal/bifocal_training.h"
#include "mixers/linear/reference.h"
#include "mixers/linear/training/linear_training.h"
#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"
#include "ops/vector.h"

namespace bifocal {
namespace {

constexpr const char* kGate = "self_attn.mix_gate";

// eq. (4); a gate that is shut or wide open lets nothing of the other side through.
template <class R>
R mixed(R far, R near, R open) {
    if (open <= 0) return near;
    if (open >= 1) return far;
    return open * far + (1 - open) * near;
}

}  // namespace

BifocalMixer::BifocalMixer(AttentionConfig near, linear::LinearConfig far, bool has_gate,
                           LayerContext context)
    : context_(std::move(context)),
      has_gate_(has_gate),
      near_(std::move(near), context_),
      far_(std::move(far), context_) {}

MixerTraits BifocalMixer::traits() const {
    return {.trainable = linear::is_trainable(far_.config(), context_)};
}

std::vector<WeightSpec> BifocalMixer::weights() const {
    std::vector<WeightSpec> list =
        Sublayer::weights(context_, "self_attn.o_proj", context_.n_heads * context_.head_dim);
    QkvProjection::add_weights(list, context_);
    near_.add_weights(list);
    far_.add_weights(list);
    if (has_gate_) {
        list.push_back({std::string(kGate) + ".weight", {context_.n_heads, context_.d_model}});
        // Nine parts of the window, one of the state.
        list.push_back(
            {std::string(kGate) + ".bias", {context_.n_heads}, true, init::constant(-2.2f)});
    }
    return list;
}

Status BifocalMixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    BIFOCAL_TRY_STATUS(qkv_.bind(context_, weights));
    BIFOCAL_TRY_STATUS(sublayer_.bind(context_, "self_attn.o_proj", weights));
    BIFOCAL_TRY_STATUS(near_.bind(weights));
    BIFOCAL_TRY_STATUS(far_.bind(weights));
    if (!has_gate_) return {};
    const std::string name = kGate;
    BIFOCAL_TRY(gate_, ops::Linear::make(name, *find_weight(weights, name + ".weight"),
                                         find_weight(weights, name + ".bias"), context_.precision));
    return {};
}

StateLayout BifocalMixer::state_layout(const StateOptions& options) const {
    StateLayout layout;
    near_.add_state(layout, options);
    far_.add_state(layout);
    return layout;
}

void BifocalMixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
    far_.init_state(layout, state);
}

int64_t BifocalMixer::tokens_visible(const StateLayout& layout, int64_t pos) const {
    return near_.tokens_visible(layout, pos);
}

// Of the far side's q, k and v.
size_t BifocalMixer::copy_bytes(int64_t n_rows) const {
    const int64_t D = context_.head_dim;
    return float_bytes(n_rows * context_.n_heads * D) +
           2 * float_bytes(n_rows * context_.n_kv_heads * D);
}

size_t BifocalMixer::workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                                     int n_threads) const {
    const int64_t N = batch * n_tokens, M = context_.d_model;
    return float_bytes(N * M) + QkvProjection::row_bytes(context_, N) + copy_bytes(N) +
           far_.row_bytes(N) + float_bytes(N * gate_width()) +
           std::max({near_.workspace_bytes(layout, batch, n_tokens), far_.run_bytes(N, n_threads),
                     ops::linear_workspace_bytes(N, M), sublayer_.workspace_bytes(N)});
}

void BifocalMixer::mix(View<const float, 2> gate, View<const float, 2> far, View<float, 2> near,
                       Exec& exec) const {
    const int64_t H = context_.n_heads, D = context_.head_dim;
    exec.pool.parallel_for(near.shape[0], 8, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t h = 0; h < H; ++h) {
                const float open = has_gate_ ? linear::sigmoid(gate(i, h)) : 0.5f;
                for (int64_t d = h * D; d < (h + 1) * D; ++d)
                    near(i, d) = mixed(far(i, d), near(i, d), open);
            }
    });
}

void BifocalMixer::forward(const Chunk& chunk, Exec& exec) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = context_.d_model, N = B * T;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (N == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(N * width).data(), {N, width});
    };
    const View<float, 2> x(chunk.x.data, {N, M}), normed = take(M);
    sublayer_.norm(x, normed, exec);
    const QkvRows near = QkvProjection::take_rows(context_, N, exec);
    const View<float, 2> gate = take(gate_width());
    linear::BranchRows far = far_.take_rows(chunk, exec);

    ops::LinearCall calls[8];
    size_t n = qkv_.add_calls(near, calls);
    n += far_.add_calls(far, calls + n);
    if (has_gate_) calls[n++] = {&gate_, gate};
    ops::linear_forward(normed, {calls, n}, exec);

    // Each side rotates and rescales its own copy.
    for (const auto& [from, to] :
         {std::pair{near.q, &far.q}, std::pair{near.k, &far.k}, std::pair{near.v, &far.v}}) {
        *to = take(from.shape[1]);
        std::memcpy(to->data, from.data, static_cast<size_t>(from.size()) * sizeof(float));
    }
    far_.run(far, normed, chunk, exec);
    near_.run(chunk, near.q, near.k, near.v, exec);
    mix(gate, far.y, near.q, exec);
    qkv_.apply_gate(near, near.q, exec);
    sublayer_.add_result(near.q, normed, x, exec);
}

namespace {

// eq. (1)-(6) on one sequence from a fresh state; near and far: [T, H·D] of its two sides.
template <class R>
void add_mixed(const DenseAttention& dense, bool has_gate, const ReferenceRows<R>& far,
               ReferenceRows<R> near, View<R, 2> x) {
    const LayerContext& c = dense.context;
    ReferenceRows<R> gate;
    if (has_gate) {
        ReferenceRows<R> normed(near.size());
        for (size_t t = 0; t < near.size(); ++t) {
            const std::span<const R> row = x.row(static_cast<int64_t>(t));
            normed[t].assign(row.begin(), row.end());
            reference_norm(std::span<R>(normed[t]),
                           dense.weights.find("input_layernorm.weight")->second, c);
        }
        gate = reference_project(normed, dense.weights, kGate, c.precision);
    }
    for (size_t t = 0; t < near.size(); ++t)
        for (size_t i = 0; i < near[t].size(); ++i) {
            const size_t h = i / static_cast<size_t>(c.head_dim);
            const R open = has_gate ? linear::sigmoid(gate[t][h]) : R(0.5);
            near[t][i] = mixed(far[t][i], near[t][i], open);
        }
    dense.add_result(near, x);
}

}  // namespace

ReferenceForward BifocalMixer::reference(const WeightMap& weights, const StateOptions& options,
                                         Real real) const {
    const DenseAttention dense = near_.dense(weights, options);
    const linear::Reference far{far_.config(), context_, dense.weights};
    const bool gate = has_gate_;
    if (real == Real::f64)
        return [=](View<double, 2> x) {
            add_mixed(dense, gate, far.heads(x, linear::Form::parallel), dense.heads(x), x);
        };
    return in_float([=](View<float, 2> x) {
        add_mixed(dense, gate, far.heads(x, linear::Form::recurrent), dense.heads(x), x);
    });
}

ReferenceForward BifocalMixer::recurrent_reference(const WeightMap& weights,
                                                   const StateOptions& options) const {
    const DenseAttention dense = near_.dense(weights, options);
    const linear::Reference far{far_.config(), context_, dense.weights};
    const bool gate = has_gate_;
    return [=](View<double, 2> x) {
        add_mixed(dense, gate, far.heads(x, linear::Form::recurrent), dense.heads_recurrent(x), x);
    };
}

TrainingForms BifocalMixer::training() const {
    return bifocal_training(near_.config(), far_.config(), has_gate_ ? kGate : "", context_);
}

std::vector<std::string> BifocalMixer::describe() const {
    std::vector<std::string> lines = qkv_.describe();
    const auto add = [&](const ops::Linear& linear) {
        lines.push_back(fmt::format("{}: {}", linear.name(), linear.kernel()));
    };
    for (const ops::Linear* linear : far_.linears()) add(*linear);
    if (has_gate_) add(gate_);
    add(sublayer_.out());
    lines.push_back(near_.describe());
    lines.push_back(far_.describe());
    return lines;
}

int64_t BifocalMixer::weight_bytes() const {
    int64_t bytes = qkv_.weight_bytes() + sublayer_.out().weight_bytes();
    for (const ops::Linear* linear : far_.linears()) bytes += linear->weight_bytes();
    return has_gate_ ? bytes + gate_.weight_bytes() : bytes;
}

}  // namespace bifocal
