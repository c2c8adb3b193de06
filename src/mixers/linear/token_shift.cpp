#include "mixers/linear/token_shift.h"

#include <cmath>
#include <cstring>

#include "mixers/shared/weight_init.h"
#include "mixers/shared/weights.h"

namespace bifocal::linear {
namespace {

constexpr const char* kStateField = "shift";

std::string up_name(int64_t i) {
    return "token_shift.up." + std::string(kShiftNames[static_cast<size_t>(i)]) + ".weight";
}

}  // namespace

void TokenShift::add_weights(const LinearConfig& config, int64_t d_model,
                             std::vector<WeightSpec>& list) {
    const int64_t rank = config.shift_rank;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape, WeightInit init) {
        list.push_back({config.prefix + name, std::move(shape), true, std::move(init)});
    };
    // All but the second factors begin at zero: nothing is shifted.
    add("token_shift.mu", {d_model}, {});
    add("token_shift.bias", {kShifts, d_model}, {});
    add("token_shift.down.weight", {kShifts * rank, d_model}, {});
    for (int64_t i = 0; i < kShifts; ++i)
        add(up_name(i), {d_model, rank}, init::normal(1 / std::sqrt(static_cast<double>(rank))));
}

Status TokenShift::bind(const LinearConfig& config, const LayerContext& context,
                        const WeightMap& weights) {
    d_model_ = context.d_model;
    rank_ = config.shift_rank;
    const auto linear = [&](const std::string& name) {
        return ops::Linear::make(config.prefix + name, *find_weight(weights, config.prefix + name),
                                 nullptr, context.precision);
    };
    BIFOCAL_TRY(down_, linear("token_shift.down.weight"));
    for (int64_t i = 0; i < kShifts; ++i) {
        BIFOCAL_TRY(up_[static_cast<size_t>(i)], linear(up_name(i)));
    }
    return {};
}

void TokenShift::add_state(StateLayout& layout, int64_t d_model) {
    layout.add(kStateField, DType::f32, {d_model});
}

ShiftedRows TokenShift::take_rows(int64_t n_rows, Exec& exec) const {
    ShiftedRows shifted;
    for (View<float, 2>& rows : shifted.rows)
        rows = {exec.workspace.take<float>(n_rows * d_model_).data(), {n_rows, d_model_}};
    return shifted;
}

size_t TokenShift::row_bytes(int64_t n_rows) const {
    return static_cast<size_t>(kShifts) * float_bytes(n_rows * d_model_);
}

size_t TokenShift::run_bytes(int64_t n_rows) const {
    return float_bytes(n_rows * kShifts * rank_) +
           std::max(ops::linear_workspace_bytes(n_rows, d_model_),
                    ops::linear_workspace_bytes(n_rows, rank_));
}

void TokenShift::run(const Params<float>& params, View<const float, 2> normed, const Chunk& chunk,
                     const ShiftedRows& out, Exec& exec) const {
    const int64_t T = chunk.x.shape[1], N = normed.shape[0], M = d_model_;
    const size_t offset = chunk.layout.field(kStateField).offset;
    const auto last_row = [&](int64_t b) {
        return reinterpret_cast<float*>(chunk.states[b] + offset);
    };
    // mix(i): row of mixes of token i, which becomes its input
    const auto shift_all = [&](auto mix) {
        exec.pool.parallel_for(N, 4, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const float* const before = i % T == 0 ? last_row(i / T) : normed.row(i - 1).data();
                mix(i, normed.row(i).data(), before);
            }
        });
    };
    const Workspace::Frame frame(exec.workspace);
    const View<float, 2> low(exec.workspace.take<float>(N * kShifts * rank_).data(),
                             {N, kShifts * rank_});
    const View<float, 2> chooser = out.rows[0];  // until its own turn comes
    shift_all([&](int64_t i, const float* x, const float* before) {
        float* const row = chooser.row(i).data();
        std::ranges::copy(params.shift_mu, row);
        shift_row(x, before, M, row);
    });
    const ops::LinearCall down{&down_, low};
    ops::linear_forward(chooser, {&down, 1}, exec);
    exec.pool.parallel_for(N, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            for (float& value : low.row(i)) value = std::tanh(value);
    });
    for (int64_t which = 0; which < kShifts; ++which) {
        const View<float, 2> rows = out.rows[static_cast<size_t>(which)];
        const View<const float, 2> part(low.data + which * rank_, {N, rank_}, {kShifts * rank_, 1});
        const ops::LinearCall up{&up_[static_cast<size_t>(which)], rows};
        ops::linear_forward(part, {&up, 1}, exec);
        const float* const bias = params.shift_bias.data() + which * M;
        shift_all([&](int64_t i, const float* x, const float* before) {
            float* const row = rows.row(i).data();
            for (int64_t m = 0; m < M; ++m) row[m] += bias[m];
            shift_row(x, before, M, row);
        });
    }
    for (int64_t b = 0; b * T < N; ++b)
        std::memcpy(last_row(b), normed.row(b * T + T - 1).data(),
                    static_cast<size_t>(M) * sizeof(float));
}

std::vector<const ops::Linear*> TokenShift::linears() const {
    std::vector<const ops::Linear*> all{&down_};
    for (const ops::Linear& linear : up_) all.push_back(&linear);
    return all;
}

}  // namespace bifocal::linear
