// The linear family against other people's code: recurrences of fla-core and mlstm_kernels, whole
// sublayers of transformers, all in FP32. tests/golden/linear is written by tools/golden/linear.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "mixers/linear/recurrence.h"
#include "mixers/linear/recurrence_reference.h"
#include "mixers/linear/rules/rules.h"
#include "mixers/testing/golden_layer.h"

namespace bifocal::linear {
namespace {

using Json = nlohmann::json;

constexpr const char* kFolder = BIFOCAL_SOURCE_DIR "/tests/golden/linear/";
constexpr double kTolerance = testing::kGoldenTolerance;
using testing::golden_distance;

const std::vector<std::string>& recurrences() {
    static const std::vector<std::string> names{
        "delta_rule",
        "gated_delta_rule",
        "gated_delta_rule_negative",
        "gla",
        "kda",
        "lightning_head1",
        "lightning_head3",
        "linear_attention_sum",
        "linear_attention_bare",
        "mlstm_exp",
        "mlstm_exp_low",
        "mlstm_sigmoid",
        "mlstm_sigmoid_bare",
        "rwkv6",
        "simple_gla",
    };
    return names;
}
const std::vector<std::string>& sublayers() {
    static const std::vector<std::string> names{
        "gdn_olmo_hybrid", "gdn_qwen3_5",     "gdn_qwen3_next",    "gla_fla",       "kda_glm5",
        "kda_kimi_linear", "kda_kimi_native", "lightning_minimax", "mamba2_zamba2", "mlstm_xlstm",
    };
    return names;
}

Json read(const std::string& name) {
    return Json::parse(std::ifstream(kFolder + name + ".json"));
}

template <class R>
std::vector<R> numbers(const Json& json) {
    return testing::golden_numbers<R>(json);
}

class Golden : public ::testing::TestWithParam<std::string> {
  protected:
    void judge(double apart, const std::string& what) {
        EXPECT_LE(apart, kTolerance) << what;
        double& worst = worst_[what];
        if (!(apart <= worst)) worst = apart;
        RecordProperty(what, fmt::format("{:.1e}", worst));
    }

    const Json golden_ = read(GetParam());

  private:
    std::map<std::string, double> worst_;
};

Recurrence recurrence_of(const Json& json) {
    const std::string write = json["write"], normaliser = json["normaliser"];
    Recurrence rec;
    rec.key_dim = json["key_dim"];
    rec.value_dim = json["value_dim"];
    rec.n_queries = json["n_queries"];
    rec.decays_by_channel = json["decays_by_channel"];
    rec.write = write == "exponential" ? Write::exponential
                : write == "delta"     ? Write::delta
                                       : Write::plain;
    rec.normaliser = normaliser == "sum"       ? Normaliser::sum
                     : normaliser == "max_abs" ? Normaliser::max_abs
                                               : Normaliser::none;
    rec.has_bonus = json.value("has_bonus", false);
    rec.scale = json["scale"];
    rec.eps = json["eps"];
    return rec;
}

// A file's tokens with a fresh state, and what became of both.
template <class R>
struct Problem {
    Recurrence rec;
    int64_t n_tokens;
    std::vector<R> q, k, v, g, w, bonus, y, s, norm, m;

    explicit Problem(const Json& golden)
        : rec(recurrence_of(golden["recurrence"])), n_tokens(golden["n_tokens"]) {
        const Json& in = golden["inputs"];
        q = numbers<R>(in["q"]), k = numbers<R>(in["k"]), v = numbers<R>(in["v"]);
        g = numbers<R>(in["g"]);
        if (in.contains("w")) w = numbers<R>(in["w"]);
        if (in.contains("bonus")) bonus = numbers<R>(in["bonus"]);
        const auto zeros = [](int64_t n) { return std::vector<R>(static_cast<size_t>(n)); };
        y = zeros(n_tokens * rec.n_queries * rec.value_dim);
        s = zeros(rec.key_dim * rec.value_dim);
        norm = zeros(rec.key_dim);
        m = {-std::numeric_limits<R>::infinity()};
    }
    Tokens<R> tokens() {
        Tokens<R> x;
        x.n = n_tokens;
        x.q = q.data(), x.q_row = rec.n_queries * rec.key_dim;
        x.k = k.data(), x.k_row = rec.key_dim;
        x.v = v.data(), x.v_row = rec.value_dim;
        x.g = g.data(), x.g_row = rec.decays_by_channel ? rec.key_dim : 1;
        x.w = w.empty() ? nullptr : w.data(), x.w_row = 1;
        x.y = y.data(), x.y_row = rec.n_queries * rec.value_dim;
        x.bonus = bonus.empty() ? nullptr : bonus.data();
        return x;
    }
    State<R> state() {
        return {s.data(), rec.has_normaliser() ? norm.data() : nullptr,
                rec.has_stabiliser() ? m.data() : nullptr};
    }
};

class LinearGoldenRecurrence : public Golden {
  protected:
    template <class R>
    void judge_all(const Problem<R>& problem, const std::string& form, bool has_state = true) {
        for (const Json& output : golden_["outputs"]) {
            SCOPED_TRACE(output["oracle"].get<std::string>());
            judge(golden_distance(problem.y, numbers<float>(output["y"])), form + "_y");
            if (!has_state || !output.contains("s")) continue;
            judge(golden_distance(problem.s, numbers<float>(output["s"])), form + "_s");
            if (output.contains("n"))
                judge(golden_distance(problem.norm, numbers<float>(output["n"])), form + "_n");
            if (output.contains("m"))
                judge(golden_distance(problem.m, numbers<float>(output["m"])), form + "_m");
        }
    }
};

TEST_P(LinearGoldenRecurrence, EveryFormGivesTheirOutputsAndState) {
    ASSERT_GE(golden_["outputs"].size(), 1u);
    for (const bool by_chunks : {false, true}) {
        Problem<float> fast(golden_);
        std::vector<float> scratch(static_cast<size_t>(scratch_floats(fast.rec)), NAN);
        (by_chunks ? run_chunks : run_recurrent)(fast.rec, fast.tokens(), fast.state(), scratch);
        judge_all(fast, by_chunks ? "chunks" : "recurrent");
    }
    Problem<double> exact(golden_);
    reference_recurrent(exact.rec, exact.tokens(), exact.state());
    judge_all(exact, "reference");
    Problem<double> parallel(golden_);
    reference_parallel(parallel.rec, parallel.tokens());
    judge_all(parallel, "parallel_reference", false);
}

// The comparison sees what it should: values that differ a little are far outside the tolerance.
TEST_P(LinearGoldenRecurrence, OtherInputsAreNotWithinTheTolerance) {
    Problem<double> other(golden_);
    for (size_t i = 0; i < other.v.size(); i += 3) other.v[i] += 0.01;
    reference_recurrent(other.rec, other.tokens(), other.state());
    for (const Json& output : golden_["outputs"])
        EXPECT_GT(golden_distance(other.y, numbers<float>(output["y"])), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Files, LinearGoldenRecurrence, ::testing::ValuesIn(recurrences()),
                         [](const auto& of) { return of.param; });

class LinearGoldenSublayer : public Golden {
  protected:
    static testing::GoldenLayer layer_of(const Json& golden) {
        return {golden, {"linear", golden["options"]}, testing::golden_context(golden["layer"])};
    }
    testing::GoldenLayer layer_ = layer_of(golden_);
};

TEST_P(LinearGoldenSublayer, EveryFormGivesTheirLayersOutput) {
    layer_.every_form([&](double apart, const std::string& what) { judge(apart, what); });
}

TEST_P(LinearGoldenSublayer, AnyOtherWeightIsNotWithinTheTolerance) {
    layer_.with_other_weights(
        [](double apart, const std::string& name) { EXPECT_GT(apart, kTolerance) << name; });
}

INSTANTIATE_TEST_SUITE_P(Files, LinearGoldenSublayer, ::testing::ValuesIn(sublayers()),
                         [](const auto& of) { return of.param; });

// Every file is read by a test above or here.
TEST(LinearGolden, FilesAreTheListedOnes) {
    std::set<std::string> listed(recurrences().begin(), recurrences().end()), found;
    listed.insert(sublayers().begin(), sublayers().end());
    listed.insert({"lightning_slopes", "versions"});
    for (const auto& entry : std::filesystem::directory_iterator(kFolder))
        found.insert(entry.path().stem().string());
    EXPECT_EQ(found, listed);
}

TEST(LinearGolden, LightningSlopesEqualTheirs) {
    const Json file = read("lightning_slopes");
    for (const Json& table : file["tables"]) {
        LayerContext context;
        context.layer = table["layer"];
        context.n_heads = context.n_kv_heads = table["n_heads"];
        context.head_dim = 1;
        for (const std::string slopes : {"fla", "minimax"}) {
            const MixerSpec spec{"linear", {{"slopes", slopes}, {"n_layers", table["n_layers"]}}};
            OptionReader options(spec);
            LinearConfig config;
            find_rule("lightning")->fill(config, context, options);
            const auto expected = table[slopes].get<std::vector<double>>();
            ASSERT_EQ(config.log_decays.size(), expected.size());
            for (size_t h = 0; h < expected.size(); ++h)  // theirs are FP32
                EXPECT_NEAR(-config.log_decays[h], expected[h], 1e-6 * expected[h])
                    << slopes << ", head " << h;
        }
    }
}

}  // namespace
}  // namespace bifocal::linear
