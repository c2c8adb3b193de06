// The planner: layouts of one model matched by the bytes they remember per sequence. It finds the
// window that fills a budget, says what the bytes hold, and what does not fit and by how much.
// Every number comes from the layouts that the mixers declare.
#pragma once

#include <string>
#include <vector>

#include "bifocal/error.h"
#include "mixers/spec.h"
#include "mixers/state.h"
#include "model/model_spec.h"

namespace bifocal {

// Per sequence, all layers together.
struct PlanBudget {
    int64_t bytes = 0;
    int64_t token_bytes = 0;  // keys and values of one token
    int64_t tokens = 0;       // whole ones that the bytes hold, beside native linear layers
};
Result<PlanBudget> budget_of_bytes(const ModelSpec& model, const StateOptions& options,
                                   int64_t bytes);
// What full attention takes for so many tokens.
Result<PlanBudget> budget_of_tokens(const ModelSpec& model, const StateOptions& options,
                                    int64_t tokens);

// Bytes by what they hold.
struct StateParts {
    int64_t keys_values = 0;  // fields k, v
    int64_t states = 0;       // s: the matrices of the linear family
    int64_t normalisers = 0;  // n
    int64_t stabilisers = 0;  // m
    int64_t conv_tails = 0;   // the tokens that a short convolution still needs
    int64_t others = 0;
    int64_t padding = 0;  // to whole cache lines

    int64_t total() const;
};
StateParts parts_of(const StateLayout& layout);

struct LayoutPlan {
    MixerSpec mixer;          // with the window found, or the smallest when none fits
    int64_t window = 0;       // 0: it has none
    bool is_longest = false;  // the window ends at the trained length, not at the budget
    // By the articles' rule: whole tokens of the budget, less what the matrices `s` are worth and
    // what else is kept beside the window. Normalisers, stabilisers and tails do not count. Below 1
    // for a window: infeasible. Without a window: what is left over.
    int64_t window_counting_states = 0;
    int64_t state_tokens = 0;  // what `s` is worth, rounded up; not that of native layers
    StateParts layer;          // of the planned layer that keeps most
    StateParts sequence;
    StateParts native;  // what of it the model's own linear layers keep, whatever the layout
    int64_t missing_bytes = 0;  // above the budget; 0: it fits
    int64_t missing_tokens = 0;

    bool fits() const { return missing_bytes == 0; }
    int64_t bytes() const { return sequence.total(); }
};

// A window, sinks of both kinds, the Bifocal layer over several rules, every rule of the linear
// family: what an article would compare.
std::vector<MixerSpec> standard_layouts();

// `mixer` in every layer but the model's own linear ones. One that has a window and does not say it
// gets the largest that fits, and at most the trained length. An error when the layers refuse it at
// any window.
Result<LayoutPlan> plan_layout(const ModelSpec& model, const StateOptions& options,
                               const MixerSpec& mixer, const PlanBudget& budget);

// Takes a slot for one sequence as a session does, writes the states of a sequence without tokens,
// and holds the bytes against the plan.
Status check_allocation(const ModelSpec& model, const StateOptions& options,
                        const LayoutPlan& plan);

}  // namespace bifocal
