#include "model/decoder.h"

#include <algorithm>
#include <limits>

#include "ops/norm.h"

namespace bifocal {

StatePlan Decoder::plan_states(const StateOptions& options) const {
    StatePlan plan;
    plan.options = options;
    for (const DecoderLayer& layer : layers) {
        plan.layers.push_back(layer.mixer->state_layout(options));
        plan.offsets.push_back(plan.bytes);
        plan.bytes += align_up(plan.layers.back().bytes);
        const int64_t max = plan.layers.back().capacity;
        if (max >= 0) plan.max_tokens = plan.max_tokens < 0 ? max : std::min(max, plan.max_tokens);
    }
    return plan;
}

void Decoder::init_states(const StatePlan& plan, std::byte* states) const {
    for (size_t i = 0; i < layers.size(); ++i)
        layers[i].mixer->init_state(plan.layers[i], states + plan.offsets[i]);
}

int64_t Decoder::rewind_limit(const StatePlan& plan, int64_t pos) const {
    int64_t limit = pos;
    for (size_t i = 0; i < layers.size(); ++i)
        limit = std::min(limit, layers[i].mixer->rewind_limit(plan.layers[i], pos));
    return limit;
}

int64_t Decoder::tokens_visible(const StatePlan& plan, int64_t pos) const {
    int64_t visible = 0;
    for (size_t i = 0; i < layers.size(); ++i)
        visible = std::max(visible, layers[i].mixer->tokens_visible(plan.layers[i], pos));
    return visible;
}

size_t Decoder::workspace_bytes(const StatePlan& plan, int64_t batch, int64_t n_tokens,
                                Step::Logits logits, int n_threads) const {
    const int64_t rows = batch * n_tokens;
    const auto floats = [&](int64_t n) {
        return align_up(static_cast<size_t>(n * spec.d_model) * sizeof(float));
    };
    size_t inside = 0;
    for (size_t i = 0; i < layers.size(); ++i)
        inside = std::max(
            {inside, layers[i].mixer->workspace_bytes(plan.layers[i], batch, n_tokens, n_threads),
             layers[i].ffn.workspace_bytes(rows)});
    if (logits != Step::Logits::none) {
        const int64_t out = logits == Step::Logits::last ? batch : rows;
        inside = std::max(inside, floats(out) + ops::linear_workspace_bytes(out, spec.d_model));
    }
    return floats(rows) + align_up(static_cast<size_t>(batch) * sizeof(std::byte*)) + inside;
}

// The embedding's rows, scaled. tokens: [B, T] → x: [B * T, M]
static void embed(const Decoder& decoder, View<const int32_t, 2> tokens, View<float, 2> x,
                  Exec& exec) {
    const float scale = decoder.spec.embedding_scale;
    exec.pool.parallel_for(x.shape[0], 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int32_t token = tokens(i / tokens.shape[1], i % tokens.shape[1]);
            BIFOCAL_CHECK(token >= 0 && token < decoder.spec.vocab_size, "token {} of {}", token,
                          decoder.spec.vocab_size);
            const std::span<float> row = x.row(i);
            decoder.embedding_rows.dequantise_row(token, row);
            if (scale != 1)
                for (float& value : row) value *= scale;
        }
    });
}

void Decoder::forward(const Step& step, const StatePlan& plan, View<float, 2> logits,
                      Exec& exec) const {
    const int64_t B = step.tokens.shape[0], T = step.tokens.shape[1], M = spec.d_model;
    BIFOCAL_CHECK(B > 0 && T > 0 && static_cast<int64_t>(step.pos.size()) == B &&
                      static_cast<int64_t>(step.states.size()) == B,
                  "{} sequences of {} tokens, {} positions, {} states", B, T, step.pos.size(),
                  step.states.size());
    const Workspace::Frame frame(exec.workspace);
    const View<float, 3> x(exec.workspace.take<float>(B * T * M).data(), {B, T, M});
    const View<float, 2> rows(x.data, {B * T, M});
    const std::span<std::byte*> slots = exec.workspace.take<std::byte*>(B);

    embed(*this, step.tokens, rows, exec);
    for (size_t i = 0; i < layers.size(); ++i) {
        for (int64_t b = 0; b < B; ++b) slots[b] = step.states[b] + plan.offsets[i];
        if (step.before_layer) step.before_layer(static_cast<int64_t>(i), rows);
        layers[i].mixer->forward({x, step.pos, slots, plan.layers[i]}, exec);
        layers[i].ffn.forward(rows, exec);
    }
    if (step.logits == Step::Logits::none) return;

    // Rows that the head sees: all, or each sequence's last.
    const bool last = step.logits == Step::Logits::last;
    const View<float, 2> seen =
        last ? View<float, 2>(x.data + (T - 1) * M, {B, M}, {T * M, 1}) : rows;
    const int64_t n = seen.shape[0];
    check_shape("logits", logits.shape, {n, spec.vocab_size});
    const View<float, 2> normed(exec.workspace.take<float>(n * M).data(), {n, M});
    ops::rms_norm(seen, final_norm, spec.norm_eps, normed, exec);
    const ops::LinearCall call{head ? head.get() : &embedding_rows, logits};
    ops::linear_forward(normed, {&call, 1}, exec);
}

}  // namespace bifocal
