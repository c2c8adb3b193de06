#include "model/calibrate.h"

#include "mixers/shared/lost_mass.h"

namespace bifocal {

Result<std::vector<std::vector<float>>> calibrate_sinks(
    const Decoder& teacher, std::span<const SinkTask> tasks, std::span<const int32_t> tokens,
    int64_t n_first, const std::function<void(int64_t done, int64_t total)>& at_layer) {
    const auto T = static_cast<int64_t>(tokens.size());
    ThreadPool pool;
    const StatePlan plan = teacher.plan_states({.capacity = T, .kv_dtype = DType::f32});
    Buffer states(plan.bytes);
    teacher.init_states(plan, states.data());
    Workspace workspace(teacher.workspace_bytes(plan, 1, T, Step::Logits::none, pool.size()));
    Exec exec{pool, workspace};

    std::vector<std::vector<float>> sinks(tasks.size());
    Status status;
    Step step;
    step.tokens = View<const int32_t, 2>(tokens.data(), {1, T});
    const int64_t pos = 0;
    step.pos = {&pos, 1};
    std::byte* const slot = states.data();
    step.states = {&slot, 1};
    step.logits = Step::Logits::none;
    step.before_layer = [&](int64_t layer, View<const float, 2> x) {
        for (size_t i = 0; i < tasks.size() && status.ok(); ++i) {
            if (tasks[i].layer != layer) continue;
            auto mass = lost_mass(teacher.spec.layers[layer].context, tasks[i].weights, x,
                                  tasks[i].window, tasks[i].sink_tokens, n_first, pool);
            if (mass.ok()) {
                sinks[i] = *std::move(mass);
            } else {
                status = std::move(mass).error();
            }
        }
        if (at_layer) at_layer(layer + 1, std::ssize(teacher.layers));
    };
    teacher.forward(step, plan, {}, exec);
    if (!status.ok()) return std::move(status).error();
    return sinks;
}

}  // namespace bifocal
