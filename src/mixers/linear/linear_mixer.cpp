#include "mixers/linear/linear_mixer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "core/check.h"
#include "mixers/linear/reference.h"
#include "mixers/linear/training/linear_training.h"
#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"

namespace bifocal::linear {
namespace {

// Every third run of head_dim rows, from run `part` on.
Tensor rows_of_heads(const Tensor& all, int64_t head_dim, int64_t part) {
    std::byte* data = nullptr;
    Tensor made = make_tensor(all.dtype, {all.shape[0] / 3, all.shape[1]}, &data);
    for (int64_t row = part * head_dim; row < all.shape[0]; row += 3 * head_dim) {
        const Tensor head = all.rows(row, row + head_dim);
        std::memcpy(data, head.bytes.data(), head.bytes.size());
        data += head.bytes.size();
    }
    return made;
}

}  // namespace

LinearMixer::LinearMixer(LinearConfig config, LayerContext context)
    : context_(std::move(context)), branch_(std::move(config), context_) {}

MixerTraits LinearMixer::traits() const {
    return {.trainable = is_trainable(branch_.config(), context_)};
}

std::vector<WeightSpec> LinearMixer::weights() const {
    const LinearConfig& c = branch_.config();
    const int64_t M = context_.d_model;
    const int64_t q = c.n_query * c.head_dim, k = c.n_key * c.head_dim;
    const int64_t v = c.n_value * c.value_dim();
    std::vector<WeightSpec> list =
        Sublayer::weights(context_, c.prefix + c.out_name, c.n_out_heads() * c.value_dim());
    const auto add = [&](const char* name, int64_t n_out) {
        // The teacher's, where there is one of these sizes.
        const auto begin = [&](const char* kind) {
            WeightInit init = init::copy_of(fmt::format("self_attn.{}{}", name, kind));
            init.queries_only = context_.output_gate && std::string_view(name) == "q_proj";
            return init;
        };
        list.push_back({c.qkv_prefix + name + ".weight", {n_out, M}, true, begin(".weight")});
        if (c.has_qkv_bias)
            list.push_back({c.qkv_prefix + name + ".bias", {n_out}, true, begin(".bias")});
    };
    if (c.is_fused) {
        add("in_proj_qkv", q + k + v);
    } else if (c.packs_heads) {
        add("qkv_proj", q + k + v);
        list.back().init = init::normal(1 / std::sqrt(static_cast<double>(M)));
    } else {
        add("q_proj", q);
        add("k_proj", k);
        add("v_proj", v);
    }
    branch_.add_weights(list);
    return list;
}

Status LinearMixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    const LinearConfig& c = branch_.config();
    const auto linear = [&](const std::string& name) -> Result<ops::Linear> {
        const std::string full = c.qkv_prefix + name;
        return ops::Linear::make(full, *find_weight(weights, full + ".weight"),
                                 find_weight(weights, full + ".bias"), context_.precision);
    };
    if (c.is_fused) {
        const std::string name = c.qkv_prefix + "in_proj_qkv";
        const Tensor& all = *find_weight(weights, name + ".weight");
        int64_t row = 0;
        for (auto [part, rows] :
             {std::pair{&q_, c.n_query * c.head_dim}, std::pair{&k_, c.n_key * c.head_dim},
              std::pair{&v_, c.n_value * c.value_dim()}}) {
            BIFOCAL_TRY(*part, ops::Linear::make(name, all.rows(row, row + rows), nullptr,
                                                 context_.precision));
            row += rows;
        }
    } else if (c.packs_heads) {
        const std::string name = c.qkv_prefix + "qkv_proj";
        const Tensor& all = *find_weight(weights, name + ".weight");
        for (auto [part, i] : {std::pair{&q_, 0}, std::pair{&k_, 1}, std::pair{&v_, 2}}) {
            BIFOCAL_TRY(*part, ops::Linear::make(name, rows_of_heads(all, c.head_dim, i), nullptr,
                                                 context_.precision));
        }
    } else {
        BIFOCAL_TRY(q_, linear("q_proj"));
        BIFOCAL_TRY(k_, linear("k_proj"));
        BIFOCAL_TRY(v_, linear("v_proj"));
    }
    BIFOCAL_TRY_STATUS(sublayer_.bind(context_, c.prefix + c.out_name, weights));
    return branch_.bind(weights);
}

StateLayout LinearMixer::state_layout(const StateOptions&) const {
    StateLayout layout;
    branch_.add_state(layout);
    return layout;
}

void LinearMixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
    branch_.init_state(layout, state);
}

size_t LinearMixer::workspace_bytes(const StateLayout&, int64_t batch, int64_t n_tokens,
                                    int n_threads) const {
    const LinearConfig& c = branch_.config();
    const int64_t N = batch * n_tokens, M = context_.d_model;
    const size_t rows = float_bytes(N * M) + float_bytes(N * c.n_query * c.head_dim) +
                        float_bytes(N * c.n_key * c.head_dim) +
                        float_bytes(N * c.n_value * c.value_dim()) + branch_.row_bytes(N);
    return rows + std::max({branch_.run_bytes(N, n_threads), ops::linear_workspace_bytes(N, M),
                            sublayer_.workspace_bytes(N)});
}

void LinearMixer::forward(const Chunk& chunk, Exec& exec) const {
    const LinearConfig& c = branch_.config();
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], N = B * T;
    check_shape("x", chunk.x.shape, {B, T, context_.d_model});
    if (N == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(N * width).data(), {N, width});
    };
    const View<float, 2> x(chunk.x.data, {N, context_.d_model});
    const View<float, 2> normed = take(context_.d_model);
    sublayer_.norm(x, normed, exec);
    BranchRows rows = branch_.take_rows(chunk, exec);
    rows.q = take(c.n_query * c.head_dim);
    rows.k = take(c.n_key * c.head_dim);
    rows.v = take(c.n_value * c.value_dim());
    ops::LinearCall calls[6] = {{&q_, rows.q}, {&k_, rows.k}, {&v_, rows.v}};
    if (branch_.has_shift()) {
        branch_.shift(rows, normed, chunk, exec);
        ops::linear_forward(rows.shifted.of(ShiftFor::q), {&calls[0], 1}, exec);
        ops::linear_forward(rows.shifted.of(ShiftFor::k), {&calls[1], 1}, exec);
        ops::linear_forward(rows.shifted.of(ShiftFor::v), {&calls[2], 1}, exec);
    } else {
        const size_t n = 3 + branch_.add_calls(rows, calls + 3);
        ops::linear_forward(normed, {calls, n}, exec);
    }
    branch_.run(rows, normed, chunk, exec);
    sublayer_.add_result(rows.y, normed, x, exec);
}

ReferenceForward LinearMixer::reference(const WeightMap& weights, const StateOptions&,
                                        Real real) const {
    const Reference reference{branch_.config(), context_, reference_weights(weights)};
    if (real == Real::f64)
        return [reference](View<double, 2> x) { reference.forward(x, Form::parallel); };
    return in_float([reference](View<float, 2> x) { reference.forward(x, Form::recurrent); });
}

ReferenceForward LinearMixer::recurrent_reference(const WeightMap& weights,
                                                  const StateOptions&) const {
    const Reference reference{branch_.config(), context_, reference_weights(weights)};
    return [reference](View<double, 2> x) { reference.forward(x, Form::recurrent); };
}

TrainingForms LinearMixer::training() const {
    return linear_training(branch_.config(), context_);
}

std::vector<const ops::Linear*> LinearMixer::linears() const {
    std::vector<const ops::Linear*> all{&q_, &k_, &v_};
    for (const ops::Linear* linear : branch_.linears()) all.push_back(linear);
    all.push_back(&sublayer_.out());
    return all;
}

std::vector<std::string> LinearMixer::describe() const {
    std::vector<std::string> lines;
    for (const ops::Linear* linear : linears())
        lines.push_back(fmt::format("{}: {}", linear->name(), linear->kernel()));
    lines.push_back(branch_.describe());
    return lines;
}

int64_t LinearMixer::weight_bytes() const {
    int64_t bytes = 0;
    for (const ops::Linear* linear : linears()) bytes += linear->weight_bytes();
    return bytes;
}

}  // namespace bifocal::linear
