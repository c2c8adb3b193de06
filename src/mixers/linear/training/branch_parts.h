// What the forward and the backward of a BranchTraining share.
#pragma once

#include "mixers/linear/training/branch_training.h"

namespace bifocal::linear {

template <class R>
Params<R> BranchTraining::params(const training::Run<R>& run) const {
    return read_params<R>(config_, [&](const std::string& name) {
        std::vector<R> values;
        const auto found = run.weights.find(name);
        if (found == run.weights.end()) return values;
        values.assign(found->second.begin(), found->second.end());
        if (name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight"))
            for (R& value : values) value += static_cast<R>(context_.norm_offset);
        return values;
    });
}

template <class R>
State<R> BranchTraining::state_at(R* memory, int64_t b, int64_t s) const {
    R* const at = memory + (b * config_.n_states + s) * state_size();
    R* const n = at + config_.key_dim() * config_.value_dim();
    const Recurrence& rec = config_.recurrence;
    return {at, rec.has_normaliser() ? n : nullptr,
            rec.has_stabiliser() ? n + config_.key_dim() : nullptr};
}

// f(in the memory, in the state, how many)
template <class R, class F>
void BranchTraining::each_field(const StateLayout& layout, std::span<std::byte* const> states,
                                R* memory, F f) const {
    for (size_t b = 0; b < states.size(); ++b)
        for (int64_t s = 0; s < config_.n_states; ++s) {
            const State<R> at = state_at(memory, static_cast<int64_t>(b), s);
            const auto field = [&](const char* name, R* mine, int64_t size) {
                if (mine == nullptr) return;
                f(mine, reinterpret_cast<R*>(states[b] + layout.field(name).offset) + s * size,
                  size);
            };
            field("s", at.s, config_.key_dim() * config_.value_dim());
            field("n", at.n, config_.key_dim());
            field("m", at.m, 1);
        }
}

template <class R>
Tokens<R> BranchTraining::tokens(const Rows<R>& rows, const Params<R>& p, int64_t b,
                                 int64_t s) const {
    const int64_t i = b * rows.T;
    return tokens_of_state<R>(
        config_, p, s, rows.T,
        {rows.q_features.row(i).data(), rows.k_features.row(i).data(), rows.v_head.row(i).data(),
         rows.g.row(i).data(), rows.w.row(i).data(), rows.recurred.row(i).data()});
}

// The three convolutions of a call: f(which, parameters, rows before, rows behind).
template <class R, class F>
void each_convolution(const Params<R>& p, const BranchTraining::Rows<R>& rows, F f) {
    f(0, p.conv_q, rows.q, rows.q_conv);
    f(1, p.conv_k, rows.k, rows.k_conv);
    f(2, p.conv_v, rows.v, rows.v_conv);
}
inline constexpr const char* kTails[] = {"q_conv", "k_conv", "v_conv"};

template <class R>
R* tail_of(const StateLayout& layout, int which, std::byte* state) {
    return reinterpret_cast<R*>(state + layout.field(kTails[which]).offset);
}

}  // namespace bifocal::linear
