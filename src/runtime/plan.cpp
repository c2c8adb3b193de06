#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "mixers/shared/rule_names.h"
#include "runtime/budget.h"
#include "runtime/state_pool.h"

namespace bifocal {
namespace {

int64_t ceil_div(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

// Where a field's bytes are counted. Mixers name alike what is alike: README of each.
int64_t& part_of(StateParts& parts, const std::string& field) {
    if (field == "k" || field == "v" || field == "kv") return parts.keys_values;
    if (field == "s") return parts.states;
    if (field == "n") return parts.normalisers;
    if (field == "m") return parts.stabilisers;
    if (field.ends_with("_conv") || field == "shift") return parts.conv_tails;
    return parts.others;
}

void add(StateParts& sum, const StateParts& more) {
    sum.keys_values += more.keys_values;
    sum.states += more.states;
    sum.normalisers += more.normalisers;
    sum.stabilisers += more.stabilisers;
    sum.conv_tails += more.conv_tails;
    sum.others += more.others;
    sum.padding += more.padding;
}

// Fills in what follows from plan.mixer.
Status measure(const ModelSpec& model, const StateOptions& options, const PlanBudget& budget,
               LayoutPlan& plan) {
    BIFOCAL_TRY(const Decoder decoder, decoder_without_weights(model, plan.mixer));
    const StatePlan states = decoder.plan_states(options);
    plan.layer = plan.sequence = plan.native = {};
    for (size_t i = 0; i < states.layers.size(); ++i) {
        const StateParts parts = parts_of(states.layers[i]);
        const bool is_native = model.layers[i].is_native_linear;
        add(plan.sequence, parts);
        if (is_native) add(plan.native, parts);
        if (!is_native && parts.total() > plan.layer.total()) plan.layer = parts;
    }
    const auto allocated = static_cast<int64_t>(states.bytes);
    plan.sequence.padding += allocated - plan.sequence.total();

    plan.missing_bytes = std::max<int64_t>(0, allocated - budget.bytes);
    plan.missing_tokens = ceil_div(plan.missing_bytes, budget.token_bytes);
    plan.state_tokens = ceil_div(plan.sequence.states - plan.native.states, budget.token_bytes);
    plan.window = plan.mixer.options.value("window", int64_t{0});
    plan.window_counting_states = budget.tokens - plan.state_tokens;
    if (plan.window > 0) {
        const int64_t kept = plan.sequence.keys_values / budget.token_bytes;
        plan.window_counting_states -= kept - plan.window;
    }
    return {};
}

}  // namespace

int64_t StateParts::total() const {
    return keys_values + states + normalisers + stabilisers + conv_tails + others + padding;
}

StateParts parts_of(const StateLayout& layout) {
    StateParts parts;
    for (const StateField& field : layout.fields)
        part_of(parts, field.name) += static_cast<int64_t>(field.bytes);
    parts.padding = static_cast<int64_t>(layout.bytes) - parts.total();
    return parts;
}

Result<PlanBudget> budget_of_bytes(const ModelSpec& model, const StateOptions& options,
                                   int64_t bytes) {
    StateOptions one = options;
    one.capacity = 1;
    BIFOCAL_TRY(const Decoder decoder, decoder_without_weights(model, {"full_attention"}));
    PlanBudget budget{.bytes = bytes};
    const StatePlan states = decoder.plan_states(one);
    int64_t native_bytes = 0;
    for (size_t i = 0; i < states.layers.size(); ++i) {
        const StateParts parts = parts_of(states.layers[i]);
        budget.token_bytes += parts.keys_values;
        if (model.layers[i].is_native_linear) native_bytes += parts.total();
    }
    if (budget.token_bytes == 0)
        return Error{.what = "nothing to plan", .got = "a model whose every layer is linear"};
    budget.tokens = std::max<int64_t>(0, bytes - native_bytes) / budget.token_bytes;
    return budget;
}

Result<PlanBudget> budget_of_tokens(const ModelSpec& model, const StateOptions& options,
                                    int64_t tokens) {
    StateOptions full = options;
    full.capacity = tokens;
    BIFOCAL_TRY(const int64_t bytes, layout_bytes(model, {"full_attention"}, full));
    BIFOCAL_TRY(PlanBudget budget, budget_of_bytes(model, options, bytes));
    budget.tokens = tokens;  // where padding would hold another one
    return budget;
}

std::vector<MixerSpec> standard_layouts() {
    std::vector<MixerSpec> layouts = {
        {"sliding_window"},
        {"sliding_window", {{"sink_tokens", 4}}},
        {"sliding_window", {{"sink", "learned"}}},
        {"bifocal", {{"far", "mlstm"}, {"sink", "learned"}, {"state_heads", "kv"}}},
        {"bifocal", {{"far", "mlstm"}, {"sink", "learned"}, {"state_heads", "q"}}},
        {"bifocal", {{"far", "liger"}, {"mix", "half"}}},
        {"bifocal", {{"far", "gdn"}}},
        {"bifocal", {{"far", "gla"}}},
        {"bifocal", {{"far", "kda"}}},
        {"lolcats"},
    };
    for (const std::string& rule : linear_rule_names())
        layouts.push_back({"linear", {{"rule", rule}}});
    return layouts;
}

Result<LayoutPlan> plan_layout(const ModelSpec& model, const StateOptions& options,
                               const MixerSpec& mixer, const PlanBudget& budget) {
    LayoutPlan plan;
    plan.mixer = mixer;
    const Status as_given = measure(model, options, budget, plan);
    if (as_given.ok()) return plan;
    if (mixer.options.contains("window")) return as_given.error();

    // Either it wants a window, or it has another flaw: then the complaint that is not about the
    // window is the one to hear.
    auto smallest = smallest_window(model, mixer, options);
    if (!smallest.ok()) {
        const bool wants_window = as_given.error().what == "option 'window'";
        return wants_window ? smallest.error() : as_given.error();
    }
    plan.mixer = *std::move(smallest);
    BIFOCAL_TRY_STATUS(measure(model, options, budget, plan));
    const int64_t kept = plan.sequence.keys_values / budget.token_bytes - plan.window;
    const int64_t longest = std::max(plan.window, model.context_length - kept);
    if (plan.fits()) {
        BIFOCAL_TRY(plan.mixer, fit_window(model, mixer, options, budget.bytes, longest));
        BIFOCAL_TRY_STATUS(measure(model, options, budget, plan));
        plan.is_longest = plan.window == longest;
    }
    plan.window_counting_states = std::min(plan.window_counting_states, longest);
    return plan;
}

Status check_allocation(const ModelSpec& model, const StateOptions& options,
                        const LayoutPlan& plan) {
    BIFOCAL_TRY(const Decoder decoder, decoder_without_weights(model, plan.mixer));
    const StatePlan states = decoder.plan_states(options);
    StatePool pool(states.bytes, 1);
    BIFOCAL_TRY(const int64_t slot, pool.acquire());
    decoder.init_states(states, pool.data(slot));
    pool.check_guard(slot);
    const auto allocated =
        static_cast<int64_t>(pool.allocated_bytes(slot) - StatePool::kGuardBytes);
    if (allocated == plan.bytes()) return {};
    return Error{.what = "the states take other bytes than planned",
                 .where = plan.mixer.to_string(),
                 .expected = fmt::format("{}", plan.bytes()),
                 .got = fmt::format("{}", allocated)};
}

}  // namespace bifocal
