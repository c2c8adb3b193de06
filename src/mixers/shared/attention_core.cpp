#include "mixers/shared/attention_core.h"

#include <algorithm>

#include "core/check.h"
#include "core/cpu_features.h"
#include "mixers/shared/weights.h"
#include "ops/norm.h"
#include "ops/vector.h"

namespace bifocal {

namespace {

// Heads as the ring has them: all read the same latent rows, eq. (15).
LayerContext ring_heads(LayerContext context) {
    if (!context.latent) return context;
    context.n_kv_heads = 1;
    context.head_dim = context.latent->width();
    return context;
}

}  // namespace

AttentionCore::AttentionCore(AttentionConfig config, LayerContext context)
    : config_(std::move(config)), layer_(std::move(context)), context_(ring_heads(layer_)) {}

void AttentionCore::add_weights(std::vector<WeightSpec>& list) const {
    if (context_.qk_norm) {
        list.push_back({"self_attn.q_norm.weight", {context_.head_dim}});
        list.push_back({"self_attn.k_norm.weight", {context_.head_dim}});
    }
    if (config_.has_learned_sink) list.push_back({"self_attn.sinks", {context_.n_heads}});
}

Status AttentionCore::bind(const WeightMap& weights) {
    q_norm_ = float_weight(weights, "self_attn.q_norm.weight", context_.norm_offset);
    k_norm_ = float_weight(weights, "self_attn.k_norm.weight", context_.norm_offset);
    if (config_.has_learned_sink) sink_logits_ = float_weight(weights, "self_attn.sinks", 0);
    if (context_.rope) {
        BIFOCAL_TRY(rope_, ops::make_rope_table(*context_.rope));
    }
    return {};
}

// Full attention is told its number of slots by the layout.
RingPlan AttentionCore::ring_plan(const StateLayout& layout) const {
    if (config_.ring) return *config_.ring;
    return {.sink_tokens = 0, .window = layout.capacity, .slack = 0};
}

void AttentionCore::add_state(StateLayout& layout, const StateOptions& options) const {
    const int64_t slots = config_.ring ? config_.ring->slots() : options.capacity;
    if (context_.latent) {
        add_latent_field(layout, slots, context_.head_dim, options.kv_dtype);
    } else {
        add_kv_fields(layout, context_.n_kv_heads, slots, context_.head_dim, options.kv_dtype);
    }
    if (!config_.ring) layout.capacity = slots;
}

int64_t AttentionCore::rewind_limit(const StateLayout& layout, int64_t pos) const {
    const RingPlan ring = ring_plan(layout);
    return pos <= ring.slots() ? pos : ring.slack;
}

int64_t AttentionCore::tokens_visible(const StateLayout& layout, int64_t pos) const {
    if (!config_.ring) return pos;  // at its capacity too, where there is no next query
    const RingPlan ring = ring_plan(layout);
    return std::min(pos, ring.sink_tokens + ring.window - 1);
}

DType AttentionCore::kv_dtype(const StateLayout& layout) const {
    return layout.field(context_.latent ? "kv" : "k").dtype;
}

KvSlots AttentionCore::slots(const StateLayout& layout, std::byte* state, int64_t kv_head) const {
    if (context_.latent) return latent_slots(layout, state, context_.latent->rank);
    return kv_slots(layout, state, kv_head);
}

// Staging memory of one kv head, keys and values.
size_t AttentionCore::stage_bytes(const StateLayout& layout, int64_t n_tokens) const {
    const int64_t slots = RingStage::max_staged_blocks(ring_plan(layout), n_tokens) * kSlotBlock;
    const int64_t width = (context_.latent ? 1 : 2) * context_.head_dim;
    return static_cast<size_t>(dtype_bytes(kv_dtype(layout), slots * width));
}

namespace {

// Pieces smaller than about this many multiplications are not worth a second thread.
constexpr int64_t kWorthSharing = 1 << 18;

}  // namespace

bool AttentionCore::has_sink_query() const {
    return config_.sinks_at_cache_positions && rope_.has_value();
}

// cos and sin for the position of a token and, after them, for where its query stands relative to
// sinks; at most 4 · rotary pairs.
void AttentionCore::find_angles(const RingPlan& ring, int64_t pos, std::span<float> angles) const {
    if (!rope_) return;
    const int64_t half = rope_->rotary_dim / 2;
    ops::rope_cos_sin(*rope_, pos, angles.first(half), angles.subspan(half, half));
    if (!has_sink_query()) return;
    // Cache positions count slots: the newest token is at most the last one.
    const int64_t cached = std::min(pos, ring.sink_tokens + ring.window - 1);
    ops::rope_cos_sin(*rope_, cached, angles.subspan(2 * half, half),
                      angles.subspan(3 * half, half));
}

// Norms, rotates and scales one token's queries and keys of the kv heads [begin, end), in place.
// q, sink_q: [H, D]; k: [G, D]
void AttentionCore::prepare_heads(float* q, float* sink_q, float* k, int64_t begin, int64_t end,
                                  std::span<const float> angles) const {
    const int64_t D = context_.head_dim, group = context_.n_heads / context_.n_kv_heads;
    const int64_t half = rope_ ? rope_->rotary_dim / 2 : 0;
    const auto rotate = [&](std::span<float> head, int64_t which) {
        ops::rope_rotate(*rope_, angles.subspan(2 * which * half, half),
                         angles.subspan((2 * which + 1) * half, half), head);
    };
    for (int64_t g = begin; g < end; ++g) {
        const std::span<float> key(k + g * D, static_cast<size_t>(D));
        if (!k_norm_.empty()) ops::rms_norm_row(key, k_norm_, context_.norm_eps, key);
        if (rope_) rotate(key, 0);
        for (int64_t h = g * group; h < (g + 1) * group; ++h) {
            const std::span<float> query(q + h * D, static_cast<size_t>(D));
            if (!q_norm_.empty()) ops::rms_norm_row(query, q_norm_, context_.norm_eps, query);
            ops::scale(context_.scale, query);
            if (!rope_) continue;
            if (has_sink_query()) {
                const std::span<float> copy(sink_q + h * D, static_cast<size_t>(D));
                std::ranges::copy(query, copy.begin());
                rotate(copy, 1);
            }
            rotate(query, 0);
        }
    }
}

size_t AttentionCore::workspace_bytes(const StateLayout& layout, int64_t batch,
                                      int64_t n_tokens) const {
    const LayerContext& c = context_;
    const size_t staged = config_.ring ? stage_bytes(layout, n_tokens) : 0;
    return float_bytes(batch * 2 * c.head_dim) +
           align_up(static_cast<size_t>(batch * c.n_kv_heads) * staged) +
           (has_sink_query() ? float_bytes(batch * n_tokens * c.n_heads * c.head_dim) : 0);
}

// One call's attention: what its loops share. Rows of q and k are tokens, [B * T, ...].
struct AttentionCore::Call {
    const AttentionCore& mixer;
    const Chunk& chunk;
    RingPlan ring;
    int64_t T, G, D, group;
    float *q, *sink_q, *k, *v;
    std::span<std::byte> staging;  // of all sequences and kv heads
    size_t staging_each;
    View<float, 2> sums;

    int64_t q_row(int64_t b, int64_t t) const { return (b * T + t) * G * group * D; }
    int64_t kv_row(int64_t b, int64_t t) const { return (b * T + t) * G * D; }

    void prepare(int64_t b, int64_t t, int64_t begin, int64_t end,
                 std::span<const float> angles) const {
        mixer.prepare_heads(q + q_row(b, t), sink_q + q_row(b, t), k + kv_row(b, t), begin, end,
                            angles);
    }
    // Tokens [begin, end) of sequence b at kv head g.
    StagedSlots slots(int64_t b, int64_t g, int64_t begin, int64_t end) const {
        const int64_t pos = chunk.pos[b];
        StagedSlots slots{RingStage(ring, pos + begin, pos + end),
                          mixer.slots(chunk.layout, chunk.states[b], g),
                          {}};
        slots.staged = slots.ring;
        slots.staged.slots = slots.stage.staged_blocks() * kSlotBlock;
        slots.staged.keys = staging.data() + static_cast<size_t>(b * G + g) * staging_each;
        if (slots.ring.values != nullptr)
            slots.staged.values =
                slots.staged.keys + dtype_bytes(slots.ring.dtype, slots.staged.slots * D);
        return slots;
    }
    void store(int64_t b, int64_t g, int64_t begin, int64_t end) const {
        const int64_t row = kv_row(b, begin) + g * D;
        StagedSlots found = slots(b, g, begin, end);
        // Where keys hold the values, nobody looks at others.
        found.store(k + row, (found.ring.values != nullptr ? v : k) + row, G * D);
    }
    // Calls f(attention) for one kv head.
    template <class F>
    void attend(int64_t b, int64_t g, int64_t begin, int64_t end, F f) const {
        const StagedSlots found = slots(b, g, begin, end);
        const int64_t row = q_row(b, begin) + g * group * D;
        RingAttention attention;
        attention.slots = &found;
        attention.group = group;
        if (!mixer.sink_logits_.empty()) {
            attention.sink_logits = std::span(mixer.sink_logits_).subspan(g * group, group);
        }
        attention.q = q + row;
        attention.out = q + row;
        attention.sink_q = mixer.has_sink_query() ? sink_q + row : nullptr;
        attention.stride = G * group * D;
        if (sums.data != nullptr) {
            attention.sums = &sums(b * T + begin, g * group);
            attention.sums_stride = sums.stride[0];
        }
        f(attention);
    }
};

// One token each: a single fork, or none when there is little to read.
void AttentionCore::decode(const Call& call, std::span<float> angles, Exec& exec) const {
    const int64_t B = call.chunk.x.shape[0], G = call.G;
    const int64_t width = 2 * context_.head_dim;
    int64_t keys = 0;
    for (int64_t b = 0; b < B; ++b) {
        find_angles(call.ring, call.chunk.pos[b], angles.subspan(b * width, width));
        keys += std::min(call.chunk.pos[b] + 1, call.ring.slots());
    }
    const bool shares = keys * context_.n_heads * context_.head_dim * 2 > kWorthSharing;
    exec.pool.parallel_for(B * G, shares ? 1 : B * G, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / G, g = i % G;
            call.prepare(b, 0, g, g + 1, angles.subspan(b * width, width));
            call.store(b, g, 0, 1);
            call.attend(b, g, 0, 1, [](const RingAttention& attention) {
                for (int64_t p = 0; p < attention.n_pieces(); ++p) attention.run(p);
            });
        }
    });
}

void AttentionCore::prefill(const Call& call, Exec& exec) const {
    const int64_t B = call.chunk.x.shape[0], T = call.T, G = call.G;
    exec.pool.parallel_for(B * T, 8, [&](int64_t begin, int64_t end, int) {
        float angles[2 * kMaxHeadDim];
        for (int64_t i = begin; i < end; ++i) {
            find_angles(call.ring, call.chunk.pos[i / T] + i % T, angles);
            call.prepare(i / T, i % T, 0, G, angles);
        }
    });
    // Full attention overwrites nothing; what a ring would, is staged a stretch at a time.
    const int64_t stretch = config_.ring ? RingStage::max_tokens(call.ring) : T;
    for (int64_t first = 0; first < T; first += stretch) {
        const int64_t last = std::min(T, first + stretch);
        const auto each_head = [&](auto f) {
            exec.pool.parallel_for(B * G, 1, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) f(i / G, i % G);
            });
        };
        each_head([&](int64_t b, int64_t g) { call.store(b, g, first, last); });
        int64_t pieces = 0;  // of the sequence that has most
        bool any_staged = false;
        for (int64_t b = 0; b < B; ++b) {
            call.attend(b, 0, first, last, [&](const RingAttention& attention) {
                pieces = std::max(pieces, attention.n_pieces());
                any_staged = any_staged || !attention.slots->stage.is_direct;
            });
        }
        exec.pool.parallel_for(B * G * pieces, 1, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t head = i / pieces;
                call.attend(head / G, head % G, first, last, [&](const RingAttention& attention) {
                    if (i % pieces < attention.n_pieces()) attention.run(i % pieces);
                });
            }
        });
        if (!any_staged) continue;
        each_head([&](int64_t b, int64_t g) { call.slots(b, g, first, last).finish(); });
    }
}

void AttentionCore::copy_leaving(const Chunk& chunk, View<float, 2> k, View<float, 2> v) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], D = context_.head_dim;
    const RingPlan ring = ring_plan(chunk.layout);
    BIFOCAL_CHECK(ring.sink_tokens == 0 && ring.slack == 0, "{} sink tokens, slack {}",
                  ring.sink_tokens, ring.slack);
    const auto head = [D](View<float, 2> rows, int64_t row, int64_t g) {
        return std::span(&rows(row, g * D), static_cast<size_t>(D));
    };
    for (int64_t b = 0; b < B; ++b) {
        const int64_t oldest = std::max<int64_t>(0, chunk.pos[b] - ring.window);
        const int64_t newest = std::min(chunk.pos[b], chunk.pos[b] + T - ring.window);
        for (int64_t g = 0; g < context_.n_kv_heads; ++g) {
            const KvSlots slots = kv_slots(chunk.layout, chunk.states[b], g);
            for (int64_t token = oldest; token < newest; ++token) {
                const int64_t row = b * T + token + ring.window - chunk.pos[b];
                slots.read(ring.slot(token), head(k, row, g), head(v, row, g));
            }
        }
    }
}

void AttentionCore::run(const Chunk& chunk, View<float, 2> q, View<float, 2> k, View<float, 2> v,
                        Exec& exec, View<float, 2> sums) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], D = context_.head_dim;
    const int64_t H = context_.n_heads, G = context_.n_kv_heads;
    const Workspace::Frame frame(exec.workspace);
    const std::span<float> angles = exec.workspace.take<float>(B * 2 * D);
    float* const sink_q =
        has_sink_query() ? exec.workspace.take<float>(B * T * H * D).data() : q.data;
    Call call{
        *this, chunk, ring_plan(chunk.layout), T, G, D, H / G, q.data, sink_q, k.data, v.data, {},
        0,     sums};
    if (config_.ring) {
        call.staging_each = stage_bytes(chunk.layout, T);
        call.staging =
            exec.workspace.take<std::byte>(B * G * static_cast<int64_t>(call.staging_each));
    }
    if (T == 1) {
        decode(call, angles, exec);
    } else {
        prefill(call, exec);
    }
}

DenseAttention AttentionCore::dense(const WeightMap& weights, const StateOptions& options) const {
    DenseAttention dense;
    dense.context = layer_;
    dense.kv_dtype = options.kv_dtype;
    if (config_.ring) {
        dense.window = config_.ring->window;
        dense.sink_tokens = config_.ring->sink_tokens;
    }
    dense.sinks_at_cache_positions = config_.sinks_at_cache_positions;
    dense.has_learned_sink = config_.has_learned_sink;
    dense.weights = reference_weights(weights);
    return dense;
}

std::string AttentionCore::describe() const {
    return fmt::format("attention: {} f32, panels of 16 keys, online softmax ({})",
                       isa_name(active_isa()), isa_reason());
}

}  // namespace bifocal
