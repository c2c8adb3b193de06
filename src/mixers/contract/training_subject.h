// TrainingSubject: one contract case as its training form sees it: weights and inputs in double
// from a seed, stretches under guard, gradients by name, and finite differences of the definition.
#pragma once

#include <cmath>
#include <map>

#include "core/rng.h"
#include "mixers/contract/subject.h"

namespace bifocal::contract {

// Training sees neither quantised weights nor rounded keys. Long enough for several chunks, and for
// a window to be left.
inline ContractCase training_case(ContractCase c) {
    c.weight_dtype = DType::f32;
    c.options.kv_dtype = DType::f32;
    const auto option = [&](const char* name) { return c.spec.options.value(name, int64_t{0}); };
    c.n_tokens =
        std::min(c.n_tokens, std::max<int64_t>(41, option("window") + option("sink_tokens") + 13));
    return c;
}

template <class R>
using NamedNumbers = std::map<std::string, std::vector<R>, std::less<>>;

template <class To, class From>
NamedNumbers<To> converted(const NamedNumbers<From>& from) {
    NamedNumbers<To> to;
    for (const auto& [name, x] : from) to[name].assign(x.begin(), x.end());
    return to;
}

inline constexpr const char* kInput = "x";

// What one backward gave: gradients of the input under kInput and of every weight, and the largest
// gradient that a stretch handed back to the one before it.
template <class R>
struct Gradients {
    NamedNumbers<R> of;
    double handed_back = 0;
};

class TrainingSubject {
  public:
    TrainingSubject(const ContractCase& c, uint64_t seed, int64_t batch = 1)
        : case_(training_case(c)), batch_(batch) {
        mixer_ = std::move(make_mixer(case_.spec, case_.context)).value();
        const WeightMap random = random_weights(mixer_->weights(), DType::f32, 100 + seed);
        for (const WeightSpec& spec : mixer_->weights()) {
            shapes_[spec.name] = spec.shape;
            std::vector<float> values(static_cast<size_t>(random.at(spec.name).elems()));
            std::memcpy(values.data(), random.at(spec.name).bytes.data(),
                        values.size() * sizeof(float));
            numbers_[spec.name].assign(values.begin(), values.end());
        }
        const auto rows = [&](double size, uint64_t own) {
            Rng rng{own + seed};
            std::vector<double> x(static_cast<size_t>(batch * case_.n_tokens * width()));
            for (double& v : x) v = static_cast<float>(size * rng.normal());
            return x;
        };
        numbers_[kInput] = rows(0.5, 200);
        dy_ = rows(1, 300);
    }

    const Mixer& mixer() const { return *mixer_; }
    int64_t width() const { return case_.context.d_model; }
    int64_t n_tokens() const { return case_.n_tokens; }
    int64_t batch() const { return batch_; }
    // Inputs under kInput and weights.
    const NamedNumbers<double>& numbers() const { return numbers_; }
    const std::vector<double>& dy() const { return dy_; }

    // What the definition gives for such numbers, [B, T, M]; `parallel` is mixer().reference(), the
    // other its twin, which other laws hold to it, and which takes a fraction of the time.
    enum class Definition { parallel, recurrent };
    std::vector<double> definition(const NamedNumbers<double>& numbers,
                                   Definition which = Definition::parallel) const {
        WeightMap weights;
        for (const auto& [name, values] : numbers) {
            if (name == kInput) continue;
            std::byte* data = nullptr;
            Tensor tensor = make_tensor(DType::f64, shapes_.at(name), &data);
            std::memcpy(data, values.data(), values.size() * sizeof(double));
            weights.emplace(name, std::move(tensor));
        }
        ReferenceForward forward;
        if (which == Definition::recurrent)
            forward = mixer_->recurrent_reference(weights, case_.options);
        if (!forward) forward = mixer_->reference(weights, case_.options, Mixer::Real::f64);
        std::vector<double> y = numbers.at(kInput);
        for (int64_t b = 0; b < batch_; ++b)
            forward({y.data() + b * n_tokens() * width(), {n_tokens(), width()}});
        return y;
    }
    // What dy · y changes by along `direction` in one of the tensors: central differences, taken of
    // each output, so that what does not change leaves no rounding. The step is small for
    // norms of heads that are nearly 0, which turn within a thousandth of an input.
    double difference(const std::string& name, const std::vector<double>& direction,
                      Definition which) const {
        const auto at = [&](double step) {
            NamedNumbers<double> moved = numbers_;
            for (size_t i = 0; i < direction.size(); ++i) moved[name][i] += step * direction[i];
            return definition(moved, which);
        };
        constexpr double kStep = 1e-6;
        const std::vector<double> above = at(kStep), below = at(-kStep);
        double sum = 0;
        for (size_t i = 0; i < above.size(); ++i) sum += dy_[i] * (above[i] - below[i]);
        return sum / (2 * kStep);
    }

    // The sequences in stretches that end at `cuts`, the last one where they end; forwards, then
    // backwards. No cut: one stretch without states.
    template <class R>
    Gradients<R> run(const TrainingForm<R>& form, std::vector<int64_t> cuts, int n_threads = 1,
                     std::vector<R>* y = nullptr) const {
        return run_with(form, converted<R>(numbers_), std::move(cuts), n_threads, y, {});
    }
    // Gradients are added to `begin`, and found for these weights only, if there are any.
    template <class R>
    Gradients<R> run_with(const TrainingForm<R>& form, const NamedNumbers<R>& numbers,
                          std::vector<int64_t> cuts, int n_threads, std::vector<R>* y,
                          const NamedNumbers<R>& begin) const {
        Gradients<R> gradients;
        WeightValues<R> weights;
        WeightGrads<R> grads;
        for (const auto& [name, values] : numbers) {
            auto& own = gradients.of[name];
            own.assign(values.size(), R(0));
            if (name == kInput) continue;
            weights[name] = values;
            if (!begin.empty() && !begin.contains(name)) continue;
            if (!begin.empty()) own = begin.at(name);
            grads[name] = own;
        }
        const bool has_states = !cuts.empty();
        cuts.push_back(n_tokens());
        const StateLayout layout = form.state_layout(case_.options);
        const auto fresh = [&] {
            std::vector<std::unique_ptr<Guarded>> states;
            for (int64_t b = 0; b < batch_ && has_states; ++b)
                states.push_back(std::make_unique<Guarded>(layout.bytes));
            return states;
        };
        const auto slots = [](const auto& states) {
            std::vector<std::byte*> all;
            for (const auto& state : states) all.push_back(state->data());
            return all;
        };
        auto states = fresh();
        for (auto& state : states) form.init_state(layout, state->data());
        ThreadPool pool(n_threads);
        std::vector<std::vector<std::unique_ptr<Guarded>>> before;
        std::vector<R> out(numbers.at(kInput).size());
        const auto each = [&](int64_t begin_token, int64_t end_token, auto f) {
            const int64_t T = end_token - begin_token;
            const std::vector<int64_t> pos(static_cast<size_t>(batch_), begin_token);
            const std::vector<R> x = cut(numbers.at(kInput), begin_token, end_token);
            Workspace workspace(
                form.workspace_bytes(has_states ? &layout : nullptr, batch_, T, n_threads));
            std::ranges::fill(workspace.bytes(), std::byte{0xff});
            Exec exec{pool, workspace};
            f(View<const R, 3>(x.data(), {batch_, T, width()}), pos, exec);
            EXPECT_EQ(workspace.used(), 0u);
        };
        for (size_t i = 0; i < cuts.size(); ++i) {
            before.push_back(fresh());
            for (size_t b = 0; b < states.size(); ++b)
                std::memcpy(before[i][b]->data(), states[b]->data(), layout.bytes);
            const int64_t first = i == 0 ? 0 : cuts[i - 1];
            each(first, cuts[i], [&](View<const R, 3> x, const auto& pos, Exec& exec) {
                std::vector<R> rows(static_cast<size_t>(x.size()), R(NAN));
                const std::vector<std::byte*> all = slots(states);
                form.forward({weights, x, pos, all, has_states ? &layout : nullptr},
                             {rows.data(), x.shape}, exec);
                paste(rows, first, cuts[i], out);
            });
        }
        auto dstates = fresh();
        for (auto& d : dstates) std::memset(d->data(), 0, layout.bytes);
        for (size_t i = cuts.size(); i-- > 0;) {
            const int64_t first = i == 0 ? 0 : cuts[i - 1];
            each(first, cuts[i], [&](View<const R, 3> x, const auto& pos, Exec& exec) {
                const std::vector<R> dy =
                    cut(std::vector<R>(dy_.begin(), dy_.end()), first, cuts[i]);
                std::vector<R> dx(dy.size(), R(NAN));
                const std::vector<std::byte*> all = slots(before[i]), dall = slots(dstates);
                form.backward({weights, x, pos, all, has_states ? &layout : nullptr},
                              {View<const R, 3>(dy.data(), x.shape), View<R, 3>(dx.data(), x.shape),
                               dall, grads},
                              exec);
                paste(dx, first, cuts[i], gradients.of[kInput]);
            });
            for (const auto& d : dstates) {
                EXPECT_TRUE(d->ok()) << "written outside of the gradients of a state";
                for (size_t at = 0; at < layout.bytes && i > 0; at += sizeof(R))
                    gradients.handed_back = std::max(
                        gradients.handed_back,
                        std::fabs(static_cast<double>(*reinterpret_cast<R*>(d->data() + at))));
            }
        }
        for (const auto& state : states) EXPECT_TRUE(state->ok()) << "written outside of a state";
        if (y != nullptr) *y = out;
        return gradients;
    }

  private:
    // Tokens [begin, end) of every sequence of [B, T, M].
    template <class R>
    std::vector<R> cut(const std::vector<R>& all, int64_t begin, int64_t end) const {
        std::vector<R> part;
        for (int64_t b = 0; b < batch_; ++b) {
            const auto at = all.begin() + b * n_tokens() * width();
            part.insert(part.end(), at + begin * width(), at + end * width());
        }
        return part;
    }
    template <class R>
    void paste(const std::vector<R>& part, int64_t begin, int64_t end, std::vector<R>& all) const {
        for (int64_t b = 0; b < batch_; ++b)
            std::copy_n(part.begin() + b * (end - begin) * width(), (end - begin) * width(),
                        all.begin() + (b * n_tokens() + begin) * width());
    }

    ContractCase case_;
    int64_t batch_;
    std::unique_ptr<Mixer> mixer_;
    std::map<std::string, std::vector<int64_t>, std::less<>> shapes_;
    NamedNumbers<double> numbers_;
    std::vector<double> dy_;
};

}  // namespace bifocal::contract
