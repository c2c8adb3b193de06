#include "mixers/shared/attention_mixer.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "mixers/shared/attention_reference.h"
#include "mixers/shared/options.h"
#include "mixers/shared/weights.h"
#include "ops/norm.h"
#include "ops/vector.h"

namespace bifocal {

AttentionMixer::AttentionMixer(AttentionConfig config, LayerContext context)
    : config_(std::move(config)), context_(std::move(context)) {}

void read_learned_sink(OptionReader& options, AttentionConfig& config) {
    config.has_learned_sink = options.choice("sink", "none", {"none", "learned"}) == "learned";
    const std::string file = options.text("sink_logits");
    options.require(file.empty() || config.has_learned_sink, "sink_logits",
                    "nothing unless sink=learned");
}

Result<std::unique_ptr<Mixer>> make_attention(AttentionConfig config, const LayerContext& context) {
    const LayerContext& c = context;
    BIFOCAL_CHECK(c.d_model > 0 && c.n_heads > 0 && c.n_kv_heads > 0 && c.head_dim > 0 &&
                      c.n_heads % c.n_kv_heads == 0,
                  "layer {}: {} heads, {} kv heads of {}", c.layer, c.n_heads, c.n_kv_heads,
                  c.head_dim);
    return std::unique_ptr<Mixer>(std::make_unique<AttentionMixer>(std::move(config), context));
}

std::vector<WeightSpec> AttentionMixer::weights() const {
    const LayerContext& c = context_;
    const int64_t M = c.d_model, HD = c.n_heads * c.head_dim, GD = c.n_kv_heads * c.head_dim;
    std::vector<WeightSpec> list{
        {"input_layernorm.weight", {M}},      {"self_attn.q_proj.weight", {HD, M}},
        {"self_attn.k_proj.weight", {GD, M}}, {"self_attn.v_proj.weight", {GD, M}},
        {"self_attn.o_proj.weight", {M, HD}},
    };
    if (c.qkv_bias) {
        list.push_back({"self_attn.q_proj.bias", {HD}});
        list.push_back({"self_attn.k_proj.bias", {GD}});
        list.push_back({"self_attn.v_proj.bias", {GD}});
    }
    if (c.out_bias) list.push_back({"self_attn.o_proj.bias", {M}});
    if (c.qk_norm) {
        list.push_back({"self_attn.q_norm.weight", {c.head_dim}});
        list.push_back({"self_attn.k_norm.weight", {c.head_dim}});
    }
    if (c.post_norm) list.push_back({"post_attention_layernorm.weight", {M}});
    if (config_.has_learned_sink) list.push_back({"self_attn.sinks", {c.n_heads}});
    return list;
}

Status AttentionMixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    const LayerContext& c = context_;
    const auto linear = [&](const std::string& name) -> Result<ops::Linear> {
        return ops::Linear::make(name, *find_weight(weights, name + ".weight"),
                                 find_weight(weights, name + ".bias"), c.precision);
    };
    BIFOCAL_TRY(q_, linear("self_attn.q_proj"));
    BIFOCAL_TRY(k_, linear("self_attn.k_proj"));
    BIFOCAL_TRY(v_, linear("self_attn.v_proj"));
    BIFOCAL_TRY(out_, linear("self_attn.o_proj"));
    norm_ = float_weight(weights, "input_layernorm.weight", c.norm_offset);
    q_norm_ = float_weight(weights, "self_attn.q_norm.weight", c.norm_offset);
    k_norm_ = float_weight(weights, "self_attn.k_norm.weight", c.norm_offset);
    if (c.post_norm) {
        post_norm_ = float_weight(weights, "post_attention_layernorm.weight", c.norm_offset);
    }
    if (config_.has_learned_sink) sink_logits_ = float_weight(weights, "self_attn.sinks", 0);
    if (c.rope) {
        BIFOCAL_TRY(rope_, ops::make_rope_table(*c.rope));
    }
    return {};
}

// Full attention is told its number of slots by the layout.
RingPlan AttentionMixer::ring_plan(const StateLayout& layout) const {
    if (config_.ring) return *config_.ring;
    return {.sink_tokens = 0, .window = layout.capacity, .slack = 0};
}

StateLayout AttentionMixer::state_layout(const StateOptions& options) const {
    const int64_t slots = config_.ring ? config_.ring->slots() : options.capacity;
    StateLayout layout = kv_layout(context_.n_kv_heads, slots, context_.head_dim, options.kv_dtype);
    if (!config_.ring) layout.capacity = slots;
    return layout;
}

void AttentionMixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
}

int64_t AttentionMixer::rewind_limit(const StateLayout& layout, int64_t pos) const {
    const RingPlan ring = ring_plan(layout);
    return pos <= ring.slots() ? pos : ring.slack;
}

int64_t AttentionMixer::tokens_visible(const StateLayout& layout, int64_t pos) const {
    const RingPlan ring = ring_plan(layout);
    return std::min(pos, ring.sink_tokens + ring.window - 1);
}

RingAttention AttentionMixer::ring_attention(const StateLayout& layout, int64_t kv_head) const {
    const int64_t group = context_.n_heads / context_.n_kv_heads;
    RingAttention attention;
    attention.plan = ring_plan(layout);
    attention.group = group;
    attention.head_dim = context_.head_dim;
    attention.scale = context_.scale;
    attention.has_sink_query = config_.sinks_at_cache_positions && rope_.has_value();
    if (!sink_logits_.empty()) {
        attention.sink_logits = std::span(sink_logits_).subspan(kv_head * group, group);
    }
    return attention;
}

// Norms and rotates one kv head's keys and its group's queries in place.
// q, sink_q: [T, group, D]; k: [T, 1, D]; scratch: [2 · D]
void AttentionMixer::prepare_heads(const Chunk& chunk, int64_t b, int64_t kv_head, View<float, 3> q,
                                   View<float, 3> sink_q, View<float, 3> k,
                                   std::span<float> scratch) const {
    const int64_t T = q.shape[0], D = context_.head_dim;
    const RingAttention attention = ring_attention(chunk.layout, kv_head);
    const auto head = [D](const View<float, 3>& x, int64_t t, int64_t h) {
        return std::span<float>(&x(t, h, 0), static_cast<size_t>(D));
    };
    const int64_t half = rope_ ? rope_->rotary_dim / 2 : 0;
    const std::span<float> cos = scratch.first(half), sin = scratch.subspan(half, half);
    for (int64_t t = 0; t < T; ++t) {
        const int64_t pos = chunk.pos[b] + t;
        if (!q_norm_.empty()) {
            ops::rms_norm_row(head(k, t, 0), k_norm_, context_.norm_eps, head(k, t, 0));
            for (int64_t h = 0; h < q.shape[1]; ++h) {
                ops::rms_norm_row(head(q, t, h), q_norm_, context_.norm_eps, head(q, t, h));
            }
        }
        if (!rope_) continue;
        if (attention.has_sink_query) {  // before q itself turns
            // Slots count positions in the cache: the newest token is at most the ring's last.
            const RingPlan& ring = attention.plan;
            ops::rope_cos_sin(*rope_, std::min(pos, ring.sink_tokens + ring.window - 1), cos, sin);
            for (int64_t h = 0; h < q.shape[1]; ++h) {
                std::ranges::copy(head(q, t, h), head(sink_q, t, h).begin());
                ops::rope_rotate(*rope_, cos, sin, head(sink_q, t, h));
            }
        }
        ops::rope_cos_sin(*rope_, pos, cos, sin);
        ops::rope_rotate(*rope_, cos, sin, head(k, t, 0));
        for (int64_t h = 0; h < q.shape[1]; ++h) {
            ops::rope_rotate(*rope_, cos, sin, head(q, t, h));
        }
    }
}

size_t AttentionMixer::workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                                       int n_threads) const {
    const LayerContext& c = context_;
    const int64_t N = batch * n_tokens, M = c.d_model;
    const int64_t HD = c.n_heads * c.head_dim, GD = c.n_kv_heads * c.head_dim;
    const RingAttention attention = ring_attention(layout, 0);
    const auto floats = [](int64_t n) { return align_up(static_cast<size_t>(n) * sizeof(float)); };
    const size_t scratch =
        floats(n_threads * (attention.scratch_floats(n_tokens) + 2 * c.head_dim));
    return floats(N * M) + floats(N * HD) + 2 * floats(N * GD) +
           (attention.has_sink_query ? floats(N * HD) : 0) +
           std::max(
               {scratch, ops::linear_workspace_bytes(N, M), ops::linear_workspace_bytes(N, HD)});
}

void AttentionMixer::forward(const Chunk& chunk, Exec& exec) const {
    const LayerContext& c = context_;
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = c.d_model, D = c.head_dim;
    const int64_t H = c.n_heads, G = c.n_kv_heads, group = H / G;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (T == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> x(chunk.x.data, {B * T, M});
    const auto take = [&](int64_t rows, int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(rows * width).data(), {rows, width});
    };

    const View<float, 2> normed =
        take(B * T, M);  // later the projected result, if it is normed too
    ops::rms_norm(x, norm_, c.norm_eps, normed, exec);
    const View<float, 2> q = take(B * T, H * D), k = take(B * T, G * D), v = take(B * T, G * D);
    const ops::LinearCall projections[] = {{&q_, q}, {&k_, k}, {&v_, v}};
    ops::linear_forward(normed, projections, exec);

    const RingAttention any = ring_attention(chunk.layout, 0);
    const View<float, 2> sink_q = any.has_sink_query ? take(B * T, H * D) : q;
    {
        const Workspace::Frame inner(exec.workspace);
        const int64_t per_thread = any.scratch_floats(T) + 2 * D;
        const std::span<float> scratch = exec.workspace.take<float>(per_thread * exec.pool.size());
        exec.pool.parallel_for(B * G, 1, [&](int64_t begin, int64_t end, int thread) {
            const std::span<float> mine = scratch.subspan(thread * per_thread, per_thread);
            for (int64_t i = begin; i < end; ++i) {
                const int64_t b = i / G, g = i % G;
                const auto heads = [&](const View<float, 2>& rows, int64_t n) {
                    return View<float, 3>(rows.data + b * T * rows.shape[1] + g * n * D, {T, n, D},
                                          {rows.shape[1], D, 1});
                };
                const View<float, 3> qs = heads(q, group), sinks = heads(sink_q, group);
                const View<float, 3> ks = heads(k, 1), vs = heads(v, 1);
                prepare_heads(chunk, b, g, qs, sinks, ks, mine.first(2 * D));
                KvRing ring = kv_ring(chunk.layout, chunk.states[b], g, D);
                const auto rows = [&](const View<float, 3>& h) {
                    return View<const float, 2>(h.data, {T, D}, {h.stride[0], 1});
                };
                ring_attention(chunk.layout, g)
                    .run(ring, chunk.pos[b], {qs, sinks, rows(ks), rows(vs), qs},
                         mine.subspan(2 * D));
            }
        });
    }

    if (post_norm_.empty()) {
        const ops::LinearCall call{&out_, x, /*accumulate=*/true};
        ops::linear_forward(q, {&call, 1}, exec);
        return;
    }
    const ops::LinearCall call{&out_, normed};
    ops::linear_forward(q, {&call, 1}, exec);
    ops::rms_norm(normed, post_norm_, c.norm_eps, normed, exec);
    for (int64_t i = 0; i < B * T; ++i) ops::add(normed.row(i), x.row(i));
}

ReferenceForward AttentionMixer::reference(const WeightMap& weights, const StateOptions& options,
                                           Real real) const {
    DenseAttention dense;
    dense.context = context_;
    dense.kv_dtype = options.kv_dtype;
    if (config_.ring) {
        dense.window = config_.ring->window;
        dense.sink_tokens = config_.ring->sink_tokens;
    }
    dense.sinks_at_cache_positions = config_.sinks_at_cache_positions;
    dense.has_learned_sink = config_.has_learned_sink;
    dense.weights = reference_weights(weights);
    if (real == Real::f64) return [dense](View<double, 2> x) { dense.forward(x); };
    return [dense](View<double, 2> x) {
        std::vector<float> plain(x.data, x.data + x.size());
        dense.forward(View<float, 2>(plain.data(), x.shape));
        std::copy(plain.begin(), plain.end(), x.data);
    };
}

std::vector<std::string> AttentionMixer::describe() const {
    std::vector<std::string> lines;
    for (const ops::Linear* linear : {&q_, &k_, &v_, &out_}) {
        lines.push_back(fmt::format("{}: {}", linear->name(), linear->kernel()));
    }
    return lines;
}

int64_t AttentionMixer::weight_bytes() const {
    return q_.weight_bytes() + k_.weight_bytes() + v_.weight_bytes() + out_.weight_bytes();
}

}  // namespace bifocal
