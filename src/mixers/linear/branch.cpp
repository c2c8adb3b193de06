#include "mixers/linear/branch.h"

#include <cmath>
#include <limits>

#include "mixers/shared/ring_attention.h"
#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"

namespace bifocal::linear {
LinearBranch::LinearBranch(LinearConfig config, LayerContext context)
    : config_(std::move(config)), context_(std::move(context)) {}

int64_t LinearBranch::decay_width() const {
    return config_.n_states * (config_.recurrence.decays_by_channel ? config_.key_dim() : 1);
}
int64_t LinearBranch::low_width() const {
    return std::max({config_.decay_projection.rank, config_.strength_projection.rank,
                     config_.gate_projection.rank});
}

void LinearBranch::add_weights(std::vector<WeightSpec>& list) const {
    const LinearConfig& c = config_;
    const int64_t M = context_.d_model, D = c.head_dim, K = c.key_dim(), V = c.value_dim();
    const int64_t q = c.n_query * D, k = c.n_key * D, v = c.n_value * V;
    const int64_t out = c.n_out_heads() * V;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape, WeightInit init) {
        list.push_back({c.prefix + name, std::move(shape), true, std::move(init)});
    };
    if (has_shift()) TokenShift::add_weights(c, M, list);
    const WeightInit taps = init::last_tap(std::max<int64_t>(c.conv_width, 1));
    if (c.conv_width > 0 && c.is_fused) add("conv1d.weight", {q + k + v, 1, c.conv_width}, taps);
    if (c.conv_width > 0 && !c.is_fused) {
        for (const auto& [name, channels] :
             {std::pair{"q_conv1d", q}, std::pair{"k_conv1d", k}, std::pair{"v_conv1d", v}}) {
            add(std::string(name) + ".weight", {channels, 1, c.conv_width}, taps);
            if (c.conv_bias) add(std::string(name) + ".bias", {channels}, {});
        }
    }
    if (c.has_qk_norm && !c.is_far) {
        for (const char* name : {"q_norm.weight", "k_norm.weight"})
            list.push_back(
                {c.qkv_prefix + name, {D}, true, init::copy_of("self_attn." + std::string(name))});
    }
    if (c.feature_map == FeatureMap::learned_softmax || c.feature_map == FeatureMap::hedgehog) {
        const bool is_half = c.feature_map == FeatureMap::hedgehog;
        const int64_t rows = is_half ? K / 2 : K;
        const double bound = std::sqrt(6.0 / static_cast<double>(D * rows));
        const WeightInit map = is_half ? init::uniform(-bound, bound) : init::identities(D);
        add("feature_map.q.weight", {c.n_query, rows, D}, map);
        add("feature_map.k.weight", {c.n_key_features(), rows, D}, map);
    }
    if (c.feature_map == FeatureMap::dct_softmax) add("feature_map.weight", {D}, init::normal(1));
    const double small = 1 / std::sqrt(static_cast<double>(M));
    for (const Projection* p : {&c.decay_projection, &c.strength_projection, &c.gate_projection}) {
        // What steps and writes may be one projection.
        const bool is_repeated = p == &c.strength_projection && p->name == c.decay_projection.name;
        if (p->n_out == 0 || is_repeated) continue;
        const std::string first = p->first_name(), last = p->last_name();
        const WeightInit from_input = p->starts_at_zero ? WeightInit{} : init::normal(small);
        add(first + ".weight", {p->rank > 0 ? p->rank : p->n_out, M}, from_input);
        if (p->rank > 0)
            add(last + ".weight", {p->n_out, p->rank},
                init::normal(1 / std::sqrt(static_cast<double>(p->rank))));
        if (p->has_bias) add(last + ".bias", {p->n_out}, p->bias_init);
    }
    if (c.decay == Decay::softplus_rate || c.decay == Decay::bounded_rate) {
        add("A_log", {c.n_states}, init::log_uniform(c.write_erases() ? 0.01 : 1, 16));
        add("dt_bias", {c.decay_projection.n_out}, init::softplus_steps(1e-3, 0.1));
    }
    if (c.has_skip) add("D", {c.n_out_heads()}, init::constant(1));
    if (c.recurrence.has_bonus) add("bonus", {c.n_states, K}, init::constant(1));
    if (c.output_norm != OutputNorm::none) {
        add(c.output_norm_name + ".weight", {c.output_norm == OutputNorm::rms_norm ? V : out},
            init::constant(1));
        if (c.output_norm == OutputNorm::group_norm ||
            c.output_norm == OutputNorm::layer_norm_biased)
            add(c.output_norm_name + ".bias", {out}, {});
    }
}

Status LinearBranch::bind(const WeightMap& weights) {
    const LinearConfig& c = config_;
    const auto linear = [&](const std::string& name) -> Result<ops::Linear> {
        const std::string full = c.prefix + name;
        return ops::Linear::make(full, *find_weight(weights, full + ".weight"),
                                 find_weight(weights, full + ".bias"), context_.precision);
    };
    for (auto [bound, p] :
         {std::pair{&decay_, &c.decay_projection}, std::pair{&strength_, &c.strength_projection},
          std::pair{&gate_, &c.gate_projection}}) {
        bound->projection = p;
        if (p->n_out == 0) continue;
        BIFOCAL_TRY(bound->first, linear(p->first_name()));
        if (p->rank == 0) continue;
        BIFOCAL_TRY(bound->second, linear(p->last_name()));
    }
    params_ = read_params<float>(c, [&](const std::string& name) {
        const bool has_offset = name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight");
        return float_weight(weights, name, has_offset ? context_.norm_offset : 0);
    });
    if (has_shift()) BIFOCAL_TRY_STATUS(shift_.bind(c, context_, weights));
    if (c.has_rope && context_.rope) {
        BIFOCAL_TRY(rope_, ops::make_rope_table(*context_.rope));
    }
    return {};
}

void add_linear_state(const LinearConfig& c, StateLayout& layout, DType dtype) {
    layout.add("s", dtype, {c.n_states, c.key_dim(), c.value_dim()});
    if (c.recurrence.has_normaliser()) layout.add("n", dtype, {c.n_states, c.key_dim()});
    if (c.recurrence.has_stabiliser()) layout.add("m", dtype, {c.n_states});
    if (c.conv_width > 1) {
        layout.add("q_conv", dtype, {c.conv_width - 1, c.n_query * c.head_dim});
        layout.add("k_conv", dtype, {c.conv_width - 1, c.n_key * c.head_dim});
        layout.add("v_conv", dtype, {c.conv_width - 1, c.n_value * c.value_dim()});
    }
}

void LinearBranch::add_state(StateLayout& layout) const {
    add_linear_state(config_, layout, DType::f32);
    if (has_shift()) TokenShift::add_state(layout, context_.d_model);
}

void LinearBranch::init_state(const StateLayout& layout, std::byte* state) const {
    if (!config_.recurrence.has_stabiliser()) return;
    auto* const m = reinterpret_cast<float*>(state + layout.field("m").offset);
    std::fill(m, m + config_.n_states, -std::numeric_limits<float>::infinity());
}

BranchRows LinearBranch::take_rows(const Chunk& chunk, Exec& exec) const {
    const LinearConfig& c = config_;
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], N = B * T;
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(N * width).data(), {N, width});
    };
    BranchRows rows;
    rows.B = B, rows.T = T;
    rows.decay = take(decay_width());
    rows.strength = take(c.n_states);
    rows.gate = take(c.gate_projection.n_out);
    rows.q_features = take(c.n_query * c.key_dim());
    rows.k_features = take(c.n_key_features() * c.key_dim());
    rows.y = take(c.n_out_heads() * c.value_dim());
    if (has_shift()) rows.shifted = shift_.take_rows(N, exec);
    return rows;
}

size_t LinearBranch::row_bytes(int64_t n) const {
    const LinearConfig& c = config_;
    return float_bytes(n * decay_width()) + float_bytes(n * c.n_states) +
           float_bytes(n * c.gate_projection.n_out) + float_bytes(n * c.n_query * c.key_dim()) +
           float_bytes(n * c.n_key_features() * c.key_dim()) +
           float_bytes(n * c.n_out_heads() * c.value_dim()) +
           (has_shift() ? shift_.row_bytes(n) : 0);
}

size_t LinearBranch::run_bytes(int64_t n, int n_threads) const {
    const int64_t low = low_width();
    const size_t factors =
        low == 0 ? 0
                 : float_bytes(n * low) + std::max(ops::linear_workspace_bytes(n, context_.d_model),
                                                   ops::linear_workspace_bytes(n, low));
    const size_t states =
        static_cast<size_t>(n_threads) * float_bytes(scratch_floats(config_.recurrence));
    const size_t shift = has_shift() ? shift_.run_bytes(n) : 0;
    return std::max({factors, states, shift, ops::linear_workspace_bytes(n, context_.d_model)});
}

std::vector<const ops::Linear*> LinearBranch::linears() const {
    std::vector<const ops::Linear*> all;
    for (const Bound* p : {&decay_, &strength_, &gate_}) {
        if (p->is_there()) all.push_back(&p->first);
        if (p->rank() > 0) all.push_back(&p->second);
    }
    if (has_shift())
        for (const ops::Linear* linear : shift_.linears()) all.push_back(linear);
    return all;
}

size_t LinearBranch::add_calls(const BranchRows& rows, ops::LinearCall* calls) const {
    size_t n = 0;
    for (const auto& [p, out] :
         {std::pair{&decay_, rows.decay}, std::pair{&strength_, rows.strength},
          std::pair{&gate_, rows.gate}})
        if (p->is_there() && !runs_apart(*p)) calls[n++] = {&p->first, out};
    return n;
}

void LinearBranch::shift(const BranchRows& rows, View<const float, 2> normed, const Chunk& chunk,
                         Exec& exec) const {
    shift_.run(params_, normed, chunk, rows.shifted, exec);
}

void LinearBranch::project(const Bound& p, View<const float, 2> in, View<float, 2> out,
                           Exec& exec) const {
    if (p.rank() == 0) {
        const ops::LinearCall whole{&p.first, out};
        return ops::linear_forward(in, {&whole, 1}, exec);
    }
    const Workspace::Frame frame(exec.workspace);
    const int64_t N = in.shape[0];
    const View<float, 2> low(exec.workspace.take<float>(N * p.rank()).data(), {N, p.rank()});
    const ops::LinearCall first{&p.first, low}, second{&p.second, out};
    ops::linear_forward(in, {&first, 1}, exec);
    if (p.projection->has_tanh)
        for (int64_t i = 0; i < N * p.rank(); ++i) low.data[i] = std::tanh(low.data[i]);
    ops::linear_forward(low, {&second, 1}, exec);
}

void LinearBranch::run(const BranchRows& rows, View<const float, 2> normed, const Chunk& chunk,
                       Exec& exec) const {
    const auto input = [&](ShiftFor which) -> View<const float, 2> {
        if (has_shift()) return rows.shifted.of(which);
        return normed;
    };
    if (runs_apart(decay_)) project(decay_, input(ShiftFor::decay), rows.decay, exec);
    if (runs_apart(strength_)) project(strength_, normed, rows.strength, exec);
    if (runs_apart(gate_)) project(gate_, input(ShiftFor::gate), rows.gate, exec);
    convolve_all(rows, chunk, exec);
    prepare_tokens(rows, chunk, exec);
    run_states(rows, chunk, exec);
    finish(rows, exec);
}

void LinearBranch::convolve_all(const BranchRows& rows, const Chunk& chunk, Exec& exec) const {
    const int64_t width = config_.conv_width;
    if (width == 0) return;
    struct Stream {
        const Params<float>::Convolution& conv;
        View<float, 2> x;
        const char* tail;
    };
    const Stream streams[] = {{params_.conv_q, rows.q, "q_conv"},
                              {params_.conv_k, rows.k, "k_conv"},
                              {params_.conv_v, rows.v, "v_conv"}};
    for (const Stream& stream : streams) {
        const int64_t channels = stream.x.shape[1];
        float* tails = nullptr;
        const size_t offset = width > 1 ? chunk.layout.field(stream.tail).offset : 0;
        exec.pool.parallel_for(rows.B * channels, 64, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t b = i / channels, c = i % channels;
                float* const tail =
                    width > 1 ? reinterpret_cast<float*>(chunk.states[b] + offset) + c : tails;
                convolve(stream.conv, width, c, stream.x.data + b * rows.T * channels + c, channels,
                         rows.T, tail, channels);
            }
        });
    }
}

void LinearBranch::prepare_tokens(const BranchRows& rows, const Chunk& chunk, Exec& exec) const {
    const LinearConfig& c = config_;
    const int64_t N = rows.B * rows.T, half = rope_ ? rope_->rotary_dim / 2 : 0;
    const auto row = [&](int64_t i) {
        return TokenRow<float>{rows.q.row(i).data(),         rows.k.row(i).data(),
                               rows.v.row(i).data(),         rows.decay.row(i).data(),
                               rows.strength.row(i).data(),  rows.q_features.row(i).data(),
                               rows.k_features.row(i).data()};
    };
    const auto prepare = [&](int64_t i) {
        float angles[2 * kMaxHeadDim];
        const std::span<float> cos(angles, static_cast<size_t>(half));
        const std::span<float> sin(angles + half, static_cast<size_t>(half));
        if (rope_) ops::rope_cos_sin(*rope_, chunk.pos[i / rows.T] + i % rows.T, cos, sin);
        prepare_heads<float>(c, params_, row(i), context_.norm_eps, [&](float* head) {
            if (rope_) ops::rope_rotate(*rope_, cos, sin, {head, static_cast<size_t>(c.head_dim)});
        });
    };
    constexpr int64_t kTokens = 4;  // worth a piece of their own
    // Of a few tokens the heads are shared out instead: each reads a matrix, from far away, once.
    if (N < kTokens * exec.pool.size() && !params_.q_map.empty()) {
        for (int64_t i = 0; i < N; ++i) prepare(i);
        exec.pool.parallel_for(c.n_feature_heads(), 1, [&](int64_t begin, int64_t end, int) {
            for (int64_t h = begin; h < end; ++h)
                for (int64_t i = 0; i < N; ++i) find_features_of<float>(c, params_, row(i), h);
        });
        for (int64_t i = 0; i < N; ++i) finish_token<float>(c, params_, row(i));
        return;
    }
    exec.pool.parallel_for(N, kTokens, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            prepare(i);
            for (int64_t h = 0; h < c.n_feature_heads(); ++h)
                find_features_of<float>(c, params_, row(i), h);
            finish_token<float>(c, params_, row(i));
        }
    });
}

void LinearBranch::run_states(const BranchRows& rows, const Chunk& chunk, Exec& exec) const {
    const LinearConfig& c = config_;
    const int64_t S = c.n_states;
    const Workspace::Frame frame(exec.workspace);
    const int64_t each = static_cast<int64_t>(float_bytes(scratch_floats(c.recurrence)) / 4);
    const std::span<float> scratch = exec.workspace.take<float>(each * exec.pool.size());
    const StateLayout& layout = chunk.layout;
    exec.pool.parallel_for(rows.B * S, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / S, s = i % S;
            const auto field = [&](const char* name, int64_t size) {
                return reinterpret_cast<float*>(chunk.states[b] + layout.field(name).offset) +
                       s * size;
            };
            const Recurrence& rec = c.recurrence;
            State<float> state;
            state.s = field("s", c.key_dim() * c.value_dim());
            if (rec.has_normaliser()) state.n = field("n", c.key_dim());
            if (rec.has_stabiliser()) state.m = field("m", 1);
            const Tokens<float> tokens = tokens_of_state<float>(
                c, params_, s, rows.T,
                {rows.q_features[b * rows.T].data, rows.k_features[b * rows.T].data,
                 rows.v[b * rows.T].data, rows.decay[b * rows.T].data,
                 rows.strength[b * rows.T].data, rows.y[b * rows.T].data});
            linear::run(rec, tokens, state,
                        scratch.subspan(static_cast<size_t>(thread * each))
                            .first(static_cast<size_t>(each)));
        }
    });
}

void LinearBranch::finish(const BranchRows& rows, Exec& exec) const {
    const LinearConfig& c = config_;
    if (!c.has_skip && c.output_norm == OutputNorm::none && c.output_gate == OutputGate::none)
        return;
    exec.pool.parallel_for(rows.B * rows.T, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            finish_output<float>(c, params_, rows.v.row(i).data(), rows.gate.row(i).data(),
                                 rows.y.row(i).data());
    });
}

std::string LinearBranch::describe() const {
    return linear::describe(config_.recurrence);
}

}  // namespace bifocal::linear
