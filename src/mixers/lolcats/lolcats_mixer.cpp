#include "mixers/lolcats/lolcats_mixer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "mixers/linear/steps.h"
#include "mixers/lolcats/reference.h"
#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"
#include "ops/norm.h"

namespace bifocal {
namespace {

constexpr const char* kQueryMap = "self_attn.far.feature_map.q.weight";
constexpr const char* kKeyMap = "self_attn.far.feature_map.k.weight";
constexpr const char* kWindowFactors = "self_attn.window_factors";

}  // namespace

LolcatsMixer::LolcatsMixer(AttentionConfig near, int64_t n_features, bool is_affine,
                           LayerContext context)
    : context_(std::move(context)), is_affine_(is_affine), near_(std::move(near), context_) {
    map_.head_dim = context_.head_dim;
    map_.feature_map = linear::FeatureMap::hedgehog;
    map_.recurrence.key_dim = n_features;
    map_.recurrence.value_dim = context_.head_dim;
    map_.recurrence.normaliser = linear::Normaliser::apart;
}

std::vector<WeightSpec> LolcatsMixer::weights() const {
    const int64_t H = context_.n_heads, D = context_.head_dim, f = map_.key_dim() / 2;
    std::vector<WeightSpec> list = Sublayer::weights(context_, "self_attn.o_proj", H * D);
    QkvProjection::add_weights(list, context_);
    near_.add_weights(list);
    const double bound = std::sqrt(6.0 / static_cast<double>(D * f));
    for (const char* name : {kQueryMap, kKeyMap})
        list.push_back({name, {H, f, D}, true, init::uniform(-bound, bound)});
    list.push_back({kWindowFactors, {H}, true, init::constant(-2.197f)});  // γ = 0.1
    return list;
}

Status LolcatsMixer::bind(const WeightMap& weights) {
    check_weights(this->weights(), weights);
    BIFOCAL_TRY_STATUS(qkv_.bind(context_, weights));
    BIFOCAL_TRY_STATUS(sublayer_.bind(context_, "self_attn.o_proj", weights));
    BIFOCAL_TRY_STATUS(near_.bind(weights));
    const int64_t D = context_.head_dim, f = map_.key_dim() / 2;
    q_norm_ = float_weight(weights, "self_attn.q_norm.weight", context_.norm_offset);
    q_map_ = linear::transposed(float_weight(weights, kQueryMap, 0), D, f);
    k_map_ = linear::transposed(float_weight(weights, kKeyMap, 0), D, f);
    window_share_ = float_weight(weights, kWindowFactors, 0);
    for (float& share : window_share_) share = linear::sigmoid(share);
    if (context_.rope) {
        BIFOCAL_TRY(rope_, ops::make_rope_table(*context_.rope));
    }
    return {};
}

StateLayout LolcatsMixer::state_layout(const StateOptions& options) const {
    StateLayout layout;
    near_.add_state(layout, options);
    layout.add("s", DType::f32, {context_.n_heads, map_.key_dim(), context_.head_dim});
    layout.add("n", DType::f32, {context_.n_heads, map_.key_dim()});
    return layout;
}

void LolcatsMixer::init_state(const StateLayout& layout, std::byte* state) const {
    std::memset(state, 0, layout.bytes);
}

int64_t LolcatsMixer::tokens_visible(const StateLayout& layout, int64_t pos) const {
    return near_.tokens_visible(layout, pos);
}

// One call's numbers; a row is a token.
struct LolcatsMixer::Rows {
    QkvRows near;                         // as projected; q becomes the window's result
    View<float, 2> leaving_k, leaving_v;  // [N, G·D], of the token that leaves when this one comes
    View<float, 2> q_features, k_features;  // [N, H·K]; keys: of the leaving token
    View<float, 2> far;                     // [N, H·D], undivided
    View<float, 2> near_sum, far_sum;       // [N, H]
};

LolcatsMixer::Rows LolcatsMixer::take_rows(int64_t n, Exec& exec) const {
    const LayerContext& c = context_;
    const auto take = [&](int64_t width) {
        return View<float, 2>(exec.workspace.take<float>(n * width).data(), {n, width});
    };
    const int64_t kv = c.n_kv_heads * c.head_dim;
    return {QkvProjection::take_rows(c, n, exec),
            take(kv),
            take(kv),
            take(feature_width()),
            take(feature_width()),
            take(c.n_heads * c.head_dim),
            take(c.n_heads),
            take(c.n_heads)};
}

size_t LolcatsMixer::row_bytes(int64_t n) const {
    const LayerContext& c = context_;
    return QkvProjection::row_bytes(c, n) + 2 * float_bytes(n * c.n_kv_heads * c.head_dim) +
           2 * float_bytes(n * feature_width()) + float_bytes(n * c.n_heads * c.head_dim) +
           2 * float_bytes(n * c.n_heads);
}

size_t LolcatsMixer::workspace_bytes(const StateLayout& layout, int64_t batch, int64_t n_tokens,
                                     int n_threads) const {
    const int64_t N = batch * n_tokens, M = context_.d_model;
    const size_t states =
        static_cast<size_t>(n_threads) * float_bytes(linear::scratch_floats(map_.recurrence));
    return float_bytes(N * M) + row_bytes(N) +
           std::max({near_.workspace_bytes(layout, batch, n_tokens), states,
                     ops::linear_workspace_bytes(N, M), sublayer_.workspace_bytes(N)});
}

// Features of normed and rotated queries; the window scales its own.
void LolcatsMixer::find_query_features(const Chunk& chunk, const Rows& rows, Exec& exec) const {
    const int64_t T = chunk.x.shape[1], D = context_.head_dim, K = map_.key_dim();
    exec.pool.parallel_for(rows.near.q.shape[0], 4, [&](int64_t begin, int64_t end, int) {
        float angles[2 * kMaxHeadDim], head[kMaxHeadDim];
        const int64_t half = rope_ ? rope_->rotary_dim / 2 : 0;
        const std::span<float> cos(angles, static_cast<size_t>(half));
        const std::span<float> sin(angles + half, static_cast<size_t>(half));
        const std::span<float> query(head, static_cast<size_t>(D));
        for (int64_t i = begin; i < end; ++i) {
            if (rope_) ops::rope_cos_sin(*rope_, chunk.pos[i / T] + i % T, cos, sin);
            for (int64_t h = 0; h < context_.n_heads; ++h) {
                std::copy_n(&rows.near.q(i, h * D), D, head);
                if (!q_norm_.empty()) ops::rms_norm_row(query, q_norm_, context_.norm_eps, query);
                if (rope_) ops::rope_rotate(*rope_, cos, sin, query);
                linear::find_features(map_, &q_map_[h * D * K / 2], head,
                                      &rows.q_features(i, h * K));
            }
        }
    });
}

// Of the tokens that leave: older than the chunk, in rows.leaving_*; else the chunk's own, which
// are rounded as the ring would have held them. Where none leaves, zeros.
void LolcatsMixer::find_key_features(const Chunk& chunk, const Rows& rows, Exec& exec) const {
    const int64_t T = chunk.x.shape[1], D = context_.head_dim, K = map_.key_dim();
    const int64_t G = context_.n_kv_heads, group = context_.n_heads / G;
    const int64_t window = near_.config().ring->window;
    const DType dtype = chunk.layout.field("k").dtype;
    exec.pool.parallel_for(rows.near.q.shape[0], 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t t = i % T;
            const std::span<float> k = rows.leaving_k.row(i), v = rows.leaving_v.row(i);
            if (chunk.pos[i / T] + t < window) {
                std::ranges::fill(v, 0.0f);
                std::ranges::fill(rows.k_features.row(i), 0.0f);
                continue;
            }
            for (int64_t j = 0; j < G * D && t >= window; ++j) {
                k[j] = KvSlots::rounded(dtype, rows.near.k(i - window, j));
                v[j] = KvSlots::rounded(dtype, rows.near.v(i - window, j));
            }
            for (int64_t h = 0; h < context_.n_heads; ++h)
                linear::find_features(map_, &k_map_[h * D * K / 2], &k[h / group * D],
                                      &rows.k_features(i, h * K));
        }
    });
}

// eq. (4): writes what leaves, then reads.
void LolcatsMixer::run_states(const Chunk& chunk, const Rows& rows, Exec& exec) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], D = context_.head_dim;
    const int64_t H = context_.n_heads, K = map_.key_dim(), group = H / context_.n_kv_heads;
    const Workspace::Frame frame(exec.workspace);
    const auto each =
        static_cast<int64_t>(float_bytes(linear::scratch_floats(map_.recurrence)) / sizeof(float));
    const std::span<float> scratch = exec.workspace.take<float>(each * exec.pool.size());
    const size_t s = chunk.layout.field("s").offset, n = chunk.layout.field("n").offset;
    const float no_decay = 0;
    exec.pool.parallel_for(B * H, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / H, h = i % H;
            linear::Tokens<float> x;
            x.n = T;
            x.q = &rows.q_features(b * T, h * K);
            x.k = &rows.k_features(b * T, h * K);
            x.v = &rows.leaving_v(b * T, h / group * D);
            x.y = &rows.far(b * T, h * D);
            x.den = &rows.far_sum(b * T, h);
            x.g = &no_decay;
            x.q_row = x.k_row = H * K;
            x.v_row = context_.n_kv_heads * D;
            x.y_row = H * D;
            x.den_row = H;
            std::byte* const slot = chunk.states[b];
            linear::State<float> state;
            state.s = reinterpret_cast<float*>(slot + s) + h * K * D;
            state.n = reinterpret_cast<float*>(slot + n) + h * K;
            linear::run(map_.recurrence, x, state,
                        scratch.subspan(static_cast<size_t>(thread * each))
                            .first(static_cast<size_t>(each)));
        }
    });
}

// eq. (5), into near.q.
void LolcatsMixer::mix(const Rows& rows, Exec& exec) const {
    const int64_t H = context_.n_heads, D = context_.head_dim;
    exec.pool.parallel_for(rows.near.q.shape[0], 8, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t h = 0; h < H; ++h) {
                const float far_share = is_affine_ ? 1 - window_share_[h] : 1.0f;
                const float near = window_share_[h] * rows.near_sum(i, h);
                const float by = 1 / (near + far_share * rows.far_sum(i, h));
                for (int64_t d = h * D; d < (h + 1) * D; ++d)
                    rows.near.q(i, d) =
                        by * (near * rows.near.q(i, d) + far_share * rows.far(i, d));
            }
    });
}

void LolcatsMixer::forward(const Chunk& chunk, Exec& exec) const {
    const int64_t B = chunk.x.shape[0], T = chunk.x.shape[1], M = context_.d_model, N = B * T;
    check_shape("x", chunk.x.shape, {B, T, M});
    if (N == 0) return;
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> x(chunk.x.data, {N, M});
    const View<float, 2> normed(exec.workspace.take<float>(N * M).data(), {N, M});
    sublayer_.norm(x, normed, exec);
    const Rows rows = take_rows(N, exec);
    ops::LinearCall calls[3];
    qkv_.add_calls(rows.near, calls);
    ops::linear_forward(normed, calls, exec);

    find_query_features(chunk, rows, exec);
    near_.copy_leaving(chunk, rows.leaving_k, rows.leaving_v);
    near_.run(chunk, rows.near.q, rows.near.k, rows.near.v, exec, rows.near_sum);
    find_key_features(chunk, rows, exec);
    run_states(chunk, rows, exec);
    mix(rows, exec);
    sublayer_.add_result(rows.near.q, normed, x, exec);
}

ReferenceForward LolcatsMixer::reference(const WeightMap& weights, const StateOptions& options,
                                         Real real) const {
    const LolcatsReference reference{near_.dense(weights, options), map_, is_affine_};
    if (real == Real::f64) return [=](View<double, 2> x) { reference.forward(x, false); };
    return in_float([=](View<float, 2> x) { reference.forward(x, true); });
}

ReferenceForward LolcatsMixer::recurrent_reference(const WeightMap& weights,
                                                   const StateOptions& options) const {
    const LolcatsReference reference{near_.dense(weights, options), map_, is_affine_};
    return [=](View<double, 2> x) { reference.forward(x, true); };
}

std::vector<std::string> LolcatsMixer::describe() const {
    std::vector<std::string> lines = qkv_.describe();
    lines.push_back(fmt::format("{}: {}", sublayer_.out().name(), sublayer_.out().kernel()));
    lines.push_back(near_.describe());
    lines.push_back(linear::describe(map_.recurrence));
    return lines;
}

int64_t LolcatsMixer::weight_bytes() const {
    return qkv_.weight_bytes() + sublayer_.out().weight_bytes();
}

}  // namespace bifocal
