// The commands end to end on a tiny model: same text for the same seed, sessions that move between
// runs, tables that are there.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "program.h"

namespace bifocal::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kWindow = "sliding_window:window=20,sink_tokens=4";

class Commands : public ProgramTest {
  protected:
    json run_json(std::vector<std::string> arguments, const std::string& input = "") const {
        arguments.emplace_back("--json");
        const Outcome outcome = run(arguments, input);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    }
};

TEST_F(Commands, RunGivesTheSameTextForTheSameSeed) {
    const std::vector<std::string> arguments = {"run",    "-p", "hello",  "-n", "24",
                                                "--seed", "5",  "--temp", "1.5"};
    const json a = run_json(arguments), b = run_json(arguments);
    EXPECT_EQ(a["text"], b["text"]);
    EXPECT_EQ(a["logit_hash"], b["logit_hash"]);
    EXPECT_EQ(a["prompt"]["tokens"], 5);
    auto other = arguments;
    other[6] = "6";
    EXPECT_NE(run_json(other)["tokens"], a["tokens"]);
}

TEST_F(Commands, ThePromptMayComeFromAnywhere) {
    write_all(path("p.txt"), "hello\n");
    const json expected = run_json({"run", "-p", "hello", "-n", "8", "--temp", "0"});
    EXPECT_EQ(run_json({"run", "-f", path("p.txt"), "-n", "8", "--temp", "0"})["text"],
              expected["text"]);
    EXPECT_EQ(run_json({"run", "-n", "8", "--temp", "0"}, "hello")["text"], expected["text"]);
    EXPECT_EQ(run_json({"run", "-f", "-", "-n", "8", "--temp", "0"}, "hello")["text"],
              expected["text"]);
    const Outcome plain = run({"run", "-p", "hello", "-n", "8", "--temp", "0"});
    EXPECT_EQ(plain.out, expected["text"].get<std::string>() + "\n");
    for (const char* line : {"prompt", "memory per sequence", "full attention would take",
                             "left the window", "tokens/s"})
        EXPECT_THAT(plain.err, HasSubstr(line));
}

TEST_F(Commands, ASavedRunGoesOnAsIfItHadNeverStopped) {
    for (const std::string& layout : {std::string("full"), kWindow}) {
        const std::vector<std::string> common = {"--attention", layout, "--temp",      "1.2",
                                                 "--seed",      "7",    "--ignore-eos"};
        const auto with = [&](std::vector<std::string> more) {
            more.insert(more.end(), common.begin(), common.end());
            return more;
        };
        const json whole = run_json(with({"run", "-p", "hello", "-n", "20"}));
        ASSERT_EQ(whole["stop_reason"], "limit");
        const json first =
            run_json(with({"run", "-p", "hello", "-n", "8", "--save-state", path("s")}));
        const json second = run_json(
            {"run", "-n", "12", "--load-state", path("s"), "--attention", layout, "--ignore-eos"});
        auto tokens = first["tokens"];
        for (const auto& token : second["tokens"]) tokens.push_back(token);
        EXPECT_EQ(tokens, whole["tokens"]);
        EXPECT_EQ(second["logit_hash"], whole["logit_hash"]);
    }
}

TEST_F(Commands, APromptAfterARestoreIsReadAfterWhatWasThere) {
    const json saved = run_json({"run", "-p", "abc", "-n", "0", "--save-state", path("s")});
    EXPECT_EQ(saved["memory"]["position"], 3);
    const json parts =
        run_json({"run", "-p", "def", "-n", "4", "--temp", "0", "--load-state", path("s")});
    const json whole = run_json({"run", "-p", "abcdef", "-n", "4", "--temp", "0"});
    EXPECT_EQ(parts["tokens"], whole["tokens"]);
}

TEST_F(Commands, FullAttentionStopsWhenItIsFullAndSaysSo) {
    const Outcome outcome =
        run({"run", "-p", "hello", "-n", "-1", "-c", "30", "--seed", "2", "--ignore-eos"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err, HasSubstr("after 30 tokens the context is full"));
}

TEST_F(Commands, IgnoreEosWritesOnPastAnEnd) {
    const std::vector<std::string> drawn = {
        "run",     "-p", "hello",   "-n", "1000",    "--temp", "50",          "--seed", "1",
        "--top-k", "0",  "--top-p", "1",  "--min-p", "0",      "--attention", kWindow};
    EXPECT_EQ(run_json(drawn)["stop_reason"], "stop");
    auto endless = drawn;
    endless.emplace_back("--ignore-eos");
    const json outcome = run_json(endless);
    EXPECT_EQ(outcome["stop_reason"], "limit");
    EXPECT_EQ(outcome["tokens"].size(), 1000u);
}

TEST_F(Commands, MemPerSeqFillsTheBudget) {
    const json run1 = run_json({"run", "-p", "hello", "-n", "1", "--mem-per-seq", "20k"});
    EXPECT_LE(run1["memory"]["state_bytes"], 20'000);
    EXPECT_GT(run1["memory"]["state_bytes"], 10'000);
    EXPECT_THAT(run1["layout"].get<std::string>(), HasSubstr("sink_tokens=4"));
}

TEST_F(Commands, ChatFlagUsesTheTemplate) {
    const json chat = run_json({"run", "--chat", "--system", "s", "-p", "hi", "-n", "1"});
    // <|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n
    EXPECT_EQ(chat["prompt"]["tokens"], 11 + 10 + 11);
    // A control token that a user typed is plain text: 12 characters, not one token.
    const json typed = run_json({"run", "--chat", "-p", "<|im_start|>", "-n", "1"});
    EXPECT_EQ(typed["prompt"]["tokens"], 8 + 12 + 11);
}

TEST_F(Commands, CtrlCStopsARunCleanly) {
    const Outcome outcome =
        run_program({"run", "-m", model(), "-t", "1", "-p", "hello", "-n", "-1", "--seed", "1",
                     "--ignore-eos", "--attention", kWindow, "--save-state", path("s")},
                    "", 200);
    EXPECT_EQ(outcome.status, 130);
    EXPECT_THAT(outcome.err, HasSubstr("memory per sequence"));
    EXPECT_EQ(run({"run", "-n", "2", "--load-state", path("s"), "--attention", kWindow}).status, 0);
}

TEST_F(Commands, InspectNamesLayersStatesAndKernels) {
    const Outcome text = run({"inspect", "--attention", kWindow});
    EXPECT_EQ(text.status, 0);
    for (const char* word : {"layers 0 to 1: sliding_window", "state", "runs", "97", "identity"})
        EXPECT_THAT(text.out, HasSubstr(word));
    const json all = run_json({"inspect", "--attention", kWindow});
    EXPECT_EQ(all["layers"].size(), 2u);
    EXPECT_EQ(all["max_tokens"], -1);
    EXPECT_GT(all["layers"][0]["state_bytes"], 0);
    EXPECT_FALSE(all["layers"][0]["runs"].empty());
}

TEST_F(Commands, PlanMatchesLayoutsByMemory) {
    const auto plan = [&](const std::vector<std::string>& budget) {
        std::vector<std::string> arguments = {"plan", "-m", model(), "--check", "--json"};
        arguments.insert(arguments.end(), budget.begin(), budget.end());
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    };
    const json all = plan({"--budget-tokens", "40"});
    EXPECT_EQ(all["budget"]["tokens"], 40);
    EXPECT_GE(all["layouts"].size(), 18u);
    int64_t n_fit = 0;
    for (const auto& layout : all["layouts"]) {
        n_fit += layout["fits"].get<bool>();
        EXPECT_EQ(layout["fits"], layout["missing_bytes"] == 0) << layout;
        EXPECT_EQ(layout["sequence_bytes"]["total"], 2 * layout["layer_bytes"]["total"].get<int>());
    }
    EXPECT_EQ(all["checked"], n_fit);
    EXPECT_GT(n_fit, 3);
    // The layout as printed is one that runs, at the bytes that were planned.
    const json& sinks = all["layouts"][1];
    const json one = run_json({"run", "-p", "a", "-n", "1", "--attention", sinks["attention"]});
    EXPECT_EQ(one["memory"]["state_bytes"], sinks["sequence_bytes"]["total"]);
    const std::string bytes = std::to_string(all["budget"]["bytes"].get<int64_t>());
    EXPECT_EQ(plan({"--mem-per-seq", bytes})["layouts"], all["layouts"]);
}

TEST_F(Commands, PlanKnowsPublicShapes) {
    const auto plan = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"plan", "--shape", "qwen3.5-4b", "--budget-tokens", "576"});
        return run_program(more);
    };
    const Outcome text = plan({"--check"});
    EXPECT_EQ(text.status, 0) << text.err;
    for (const char* words : {"bifocal:far=mlstm,sink=learned,state_heads=kv,window=318", "320",
                              "normalisers", "infeasible (-448)", "72.0 MiB", "equal to the byte"})
        EXPECT_THAT(text.out, HasSubstr(words));
    const Outcome two =
        plan({"--attention", "sliding_window", "--attention", "linear:rule=kda", "--json"});
    const json layouts = json::parse(two.out)["layouts"];
    ASSERT_EQ(layouts.size(), 2u);
    EXPECT_EQ(layouts[0]["window"], 576);
    EXPECT_FALSE(layouts[1]["fits"].get<bool>());
    EXPECT_EQ(layouts[1]["state_tokens"], 1024);
}

TEST_F(Commands, PerplexityScoresEveryTokenButTheFirst) {
    const std::string text = "hello hello hello hello hello hello";
    const json one = run_json(
        {"perplexity", "-p", text, "--per-token", "--attention", "full", "--attention", kWindow});
    ASSERT_EQ(one["layouts"].size(), 2u);
    EXPECT_EQ(one["tokens"], 35);
    for (const auto& layout : one["layouts"]) {
        const auto& tokens = layout["per_token"];
        ASSERT_EQ(tokens.size(), 35u);
        EXPECT_TRUE(tokens[0]["logprob"].is_null());
        double sum = 0;
        for (size_t i = 1; i < tokens.size(); ++i) sum -= tokens[i]["logprob"].get<double>();
        EXPECT_NEAR(sum / 34, layout["nll"].get<double>(), 1e-9);
        EXPECT_EQ(layout["scored"], 34);
    }
    EXPECT_NE(one["layouts"][0]["nll"], one["layouts"][1]["nll"]);
    const json first = run_json({"perplexity", "-p", text, "--ctx", "10"});
    EXPECT_EQ(first["tokens"], 10);
    const Outcome table =
        run({"perplexity", "-p", text, "--attention", "full", "--attention", kWindow});
    EXPECT_THAT(table.out, HasSubstr("NLL"));
    EXPECT_EQ(std::ranges::count(table.out, '\n'), 5);
}

TEST_F(Commands, VerifyHoldsPathsTogether) {
    for (const std::string& layout : {std::string("full"), kWindow}) {
        const json all =
            run_json({"verify", "--tokens", "600", "--attention", layout, "-c", "900"});
        ASSERT_EQ(all["paths"].size(), 5u);
        for (const auto& path : all["paths"]) {
            EXPECT_TRUE(path["agrees"].get<bool>()) << path;
            EXPECT_LT(path["mean_kl"].get<double>(), 1e-4) << path;
        }
        EXPECT_EQ(all["paths"][4]["bit_equal"], 600);
    }
    const Outcome strict = run({"verify", "-p", "hello there", "--attention", kWindow});
    EXPECT_EQ(strict.status, 0);
    EXPECT_THAT(strict.out, HasSubstr("saved and restored"));
}

TEST_F(Commands, BenchMixerTimesBothFormsOfARule) {
    const Outcome outcome =
        run_program({"bench", "mixer", "--rule", "gdn,kda", "--tokens", "70", "--states", "2",
                     "--head-dim", "16", "-r", "2", "-t", "1", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json seen = json::parse(outcome.out);
    ASSERT_EQ(seen["results"].size(), 2u);
    for (const auto& one : seen["results"])
        for (const char* form : {"recurrent_seconds", "chunk_seconds"}) {
            ASSERT_EQ(one[form].size(), 2u) << one;
            EXPECT_GT(one[form][0].get<double>(), 0) << one;
        }
    EXPECT_TRUE(seen["results"][0]["runs_chunks"].get<bool>());
    EXPECT_FALSE(seen["results"][1]["runs_chunks"].get<bool>());
    const Outcome refused = run_program({"bench", "mixer", "--rule", "none"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("gdn"));
}

// Linear layers of the model's own stay, and count.
TEST_F(Commands, MixedModelsGoThroughEveryCommand) {
    const std::string mixed = BIFOCAL_SOURCE_DIR "/tests/golden/models/qwen3_5";
    const auto json_of = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin() + 1, {"-m", mixed});
        arguments.emplace_back("--json");
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    };
    const json seen = json_of({"inspect", "--mem-per-seq", "8KiB"});
    EXPECT_THAT(seen["layers"][0]["mixer"], HasSubstr("form=qwen"));
    EXPECT_THAT(seen["layers"][1]["mixer"], HasSubstr("sliding_window"));
    EXPECT_LE(seen["state_bytes"], 8192);
    EXPECT_GT(seen["layers"][0]["state_bytes"], 0);
    const json plan = json_of({"plan", "--mem-per-seq", "8KiB", "--attention", "sliding_window"});
    EXPECT_EQ(plan["layouts"][0]["native_bytes"]["total"],
              2 * seen["layers"][0]["state_bytes"].get<int64_t>());
    const json verified = json_of({"verify", "--tokens", "50", "--attention", kWindow});
    EXPECT_EQ(verified["paths"].size(), 5u);
    for (const auto& path : verified["paths"]) EXPECT_TRUE(path["agrees"].get<bool>()) << path;
    const Outcome made = run_program({"convert", "-m", mixed, "--attention",
                                      "bifocal:window=9,far=mlstm", "-o", path("student")});
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_EQ(run_program({"verify", "-m", path("student"), "--tokens", "50"}).status, 0);
}

TEST_F(Commands, LatentKeysGoThroughEveryCommand) {
    const std::string latent = BIFOCAL_SOURCE_DIR "/tests/golden/models/kimi_linear";
    const auto program = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin() + 1, {"-m", latent});
        return run_program(arguments);
    };
    const Outcome inspected = program({"inspect", "--attention", kWindow});
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    EXPECT_THAT(inspected.out, AllOf(HasSubstr("state   kv bf16 ["), HasSubstr("form=kimi")));
    EXPECT_EQ(program({"verify", "--tokens", "50", "--attention", kWindow}).status, 0);

    const Outcome plan = program({"plan", "--budget-tokens", "32", "--check"});
    EXPECT_EQ(plan.status, 0) << plan.err;
    EXPECT_THAT(plan.out, AllOf(HasSubstr("4 query heads of 14, latent rows of 26"),
                                HasSubstr("sliding_window:sink_tokens=4,window=28"),
                                HasSubstr("equal to the byte")));
    // One reason, once, for all that it keeps away.
    const size_t why = plan.out.find("not with this model: the layer's keys and values");
    ASSERT_NE(why, std::string::npos);
    EXPECT_EQ(plan.out.find("not with this model", why + 1), std::string::npos);
    EXPECT_GT(plan.out.find("  lolcats\n"), why);

    const Outcome made = program(
        {"convert", "--attention", "sliding_window:window=9,sink=learned", "-o", path("student")});
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_EQ(run_program({"verify", "-m", path("student"), "--tokens", "50"}).status, 0);
    const Outcome refused =
        program({"convert", "--attention", "bifocal:window=9,far=mlstm", "-o", path("other")});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("layer 1"), HasSubstr("latent rows")));
}

TEST_F(Commands, VerifyReadsAShortTextAgainAndRoundsLinearStates) {
    ASSERT_EQ(run_program({"convert", "-m", model(), "--attention", "bifocal:window=9,far=mlstm",
                           "-o", path("student")})
                  .status,
              0);
    const auto verify = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"verify", "-m", path("student"), "-t",
                                              "1",      "-p", "hello there",   "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    };
    const json all = verify({"--tokens", "700", "--exact"});
    EXPECT_EQ(all["tokens"], 700);
    EXPECT_EQ(all["text_tokens"], 11);
    ASSERT_EQ(all["paths"].size(), 5u);
    for (const auto& entry : all["paths"]) {
        EXPECT_TRUE(entry["agrees"].get<bool>()) << entry;
        EXPECT_LE(entry["mean_kl"].get<double>(), 1e-6) << entry;
        EXPECT_LE(entry["mean_kl"].get<double>(), entry["max_kl"].get<double>());
    }
    EXPECT_EQ(all["paths"][4]["bit_equal"], 700);
    // Rounding the states is seen, and it is no failure.
    EXPECT_GT(all["bf16_states"]["mean_kl"].get<double>(), 0);
    EXPECT_LT(all["bf16_states"]["bit_equal"], 700);

    const json some = verify({"--paths", "bf16"});
    EXPECT_EQ(some["tokens"], 11);  // nobody asked for more
    ASSERT_EQ(some["paths"].size(), 1u);
    EXPECT_EQ(some["paths"][0]["key"], "tokens");
    const json none = run_json({"verify", "--paths", "bf16,batch", "--attention", kWindow});
    EXPECT_EQ(none["paths"].size(), 1u);
    EXPECT_TRUE(none["bf16_states"].is_null());
}

TEST_F(Commands, CheckpointsAreCountedAndSayHowFarBackOneCanGo) {
    ASSERT_EQ(run_program({"convert", "-m", model(), "--attention", "linear:rule=mlstm", "-o",
                           path("student")})
                  .status,
              0);
    const auto memory = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"run", "-m",           path("student"), "-t",
                                              "1",   "-p",           "hello",         "-n",
                                              "40",  "--ignore-eos", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_program(arguments);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false)["memory"];
    };
    const json none = memory({});
    EXPECT_EQ(none["checkpoint_bytes"], 0);
    EXPECT_EQ(none["rewind_limit"], 0);
    const json some = memory({"--checkpoint-mem", "300k", "--checkpoint-every-n-tokens", "16"});
    EXPECT_GT(some["checkpoint_bytes"], 100'000);
    EXPECT_LE(some["checkpoint_bytes"], 300'000);
    EXPECT_GE(some["rewind_limit"], 16);
    EXPECT_EQ(some["state_bytes"], none["state_bytes"]);
    const Outcome text = run_program(
        {"run", "-m", path("student"), "-p", "hello", "-n", "2", "--checkpoint-mem", "300k"});
    EXPECT_THAT(text.err, HasSubstr("can be taken back"));
}

TEST_F(Commands, BenchMeasures) {
    const json decode = run_json(
        {"bench", "decode", "--at", "30,50", "-n", "4", "-r", "3", "--attention", kWindow});
    ASSERT_EQ(decode["results"].size(), 2u);
    EXPECT_EQ(decode["results"][1]["position"], 50);
    EXPECT_EQ(decode["results"][1]["repeats"].size(), 3u);
    EXPECT_GT(decode["results"][0]["tokens_per_second"], 0);
    EXPECT_GT(decode["machine_gb_per_second"], 0);
    const json prefill = run_json({"bench", "prefill", "--at", "40", "-r", "2"});
    EXPECT_GT(prefill["results"][0]["tokens_per_second"], 0);
    EXPECT_EQ(run({"bench", "prefill", "--at", "40", "-r", "1"}).status, 0);
}

TEST_F(Commands, EveryCommandHasHelpWithAnExample) {
    for (const char* command : {"run", "chat", "perplexity", "inspect", "plan", "verify",
                                "tokenize", "template", "bench"}) {
        const Outcome outcome = run_program({command, "--help"});
        EXPECT_EQ(outcome.status, 0) << command;
        EXPECT_THAT(outcome.out, HasSubstr("xample")) << command;
        EXPECT_THAT(outcome.out, HasSubstr(std::string("bifocal ") + command));
    }
    EXPECT_THAT(run_program({"--version"}).out, HasSubstr("bifocal "));
}

}  // namespace
}  // namespace bifocal::testing
