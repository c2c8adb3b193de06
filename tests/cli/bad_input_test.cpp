// What bad input gets: one line that names what, where, expected and got; exit 2 for usage, 1 for
// failure; nothing half-written.
#include <gmock/gmock.h>

#include <filesystem>

#include "program.h"

namespace bifocal::testing {
namespace {

using ::testing::HasSubstr;

const std::string kWindow = "sliding_window:window=20,sink_tokens=4";

class BadInput : public ProgramTest {
  protected:
    Outcome with_model(const std::string& path) const {
        return run_program({"run", "-m", path, "-p", "x"});
    }
    Outcome with_layout(const std::string& layout) const {
        return run({"run", "-p", "x", "--attention", layout});
    }
    // A file of the folder with something replaced in it.
    void edit(const std::string& file, const std::string& from, const std::string& to) {
        std::string text = read_all(model() + "/" + file);
        const size_t at = text.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        write_all(model() + "/" + file, text.replace(at, from.size(), to));
    }
};

TEST_F(BadInput, ModelFiles) {
    expect_refused(with_model(path("missing.gguf")), 1, {path("missing.gguf")});
    expect_refused(with_model(folder_), 1, {folder_, "config.json"});
    write_all(path("empty.gguf"), "");
    expect_refused(with_model(path("empty.gguf")), 1, {path("empty.gguf")});
    write_all(path("foreign.gguf"), "PK\x03\x04 this is an archive of something else entirely");
    expect_refused(with_model(path("foreign.gguf")), 1, {path("foreign.gguf")});
    const std::string good =
        read_all(BIFOCAL_SOURCE_DIR "/tests/golden/models/llama_tied/model.gguf");
    for (const size_t n : {3, 20, 500, 20'000}) {
        write_all(path("cut.gguf"), good.substr(0, n));
        expect_refused(with_model(path("cut.gguf")), 1, {path("cut.gguf")});
    }
}

TEST_F(BadInput, UnsupportedArchitectureIsNamed) {
    edit("config.json", "LlamaForCausalLM", "OtterForCausalLM");
    edit("config.json", "\"llama\"", "\"otter\"");
    expect_refused(run({"run", "-p", "x"}), 1, {"config.json", "tter"});
}

TEST_F(BadInput, UnsupportedTensorTypeIsNamed) {
    std::string file = read_all(model() + "/model.safetensors");
    const size_t at = file.find("\"F32\"");
    ASSERT_NE(at, std::string::npos);
    write_all(model() + "/model.safetensors", file.replace(at, 5, "\"Q77\""));
    expect_refused(run({"run", "-p", "x"}), 1, {"model.safetensors", "Q77"});
}

TEST_F(BadInput, Layouts) {
    expect_refused(with_layout("slidng_window:window=20"), 2, {"slidng_window", "sliding_window"});
    expect_refused(with_layout("sliding_window:windw=20"), 2, {"windw", "window"});
    expect_refused(with_layout("sliding_window"), 2, {"window"});
    expect_refused(with_layout("sliding_window:window=0"), 2,
                   {"bifocal: layer 0: sliding_window:window=0: ", "'window'", "got 0"});
    expect_refused(with_layout("sliding_window:window=4,sink_tokens=4"), 2,
                   {"sink_tokens + 1 = 5", "got 4"});
    expect_refused(with_layout("sliding_window:window=20,window=21"), 2, {"window", "twice"});
    expect_refused(with_layout("sliding_window:window=many"), 2, {"many"});
    expect_refused(with_layout("full:window=3"), 2, {"window"});
    expect_refused(with_layout(""), 2, {"--attention"});
    expect_refused(with_layout("@" + path("none.json")), 1, {path("none.json")});
    write_all(path("layout.json"), "[{\"kind\": \"full_attention\"}]");
    expect_refused(with_layout("@" + path("layout.json")), 2, {"layers", "expected 2", "got 1"});
    write_all(path("layout.json"), "[{\"kind\": \"full_attention\",}]");
    expect_refused(with_layout("@" + path("layout.json")), 2, {path("layout.json")});
}

TEST_F(BadInput, Budgets) {
    expect_refused(run({"run", "-p", "x", "--mem-per-seq", "100"}), 1,
                   {"too small for one token", "--mem-per-seq", "is the least that works"});
    expect_refused(run({"run", "-p", "x", "--mem-per-seq", "100", "--attention", kWindow}), 1,
                   {"does not fit the budget", "got "});
    expect_refused(run({"run", "-p", "x", "--mem-per-seq", "lots"}), 2, {"'lots'", "72MiB"});
}

TEST_F(BadInput, Checkpoints) {
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"run", "-p", "x"});
        return run(more);
    };
    expect_refused(
        with({"--attention", kWindow, "--checkpoint-mem", "100"}), 1,
        {"budget for checkpoints is too small", "at least", "got 100", "is the least that works"});
    expect_refused(with({"--checkpoint-mem", "1MiB"}), 2, {"of no use", "any token"});
    expect_refused(with({"--attention", kWindow, "--checkpoint-mem", "some"}), 2, {"'some'"});
    expect_refused(with({"--attention", kWindow, "--checkpoint-every-n-tokens", "9"}), 2,
                   {"--checkpoint-mem"});
    expect_refused(
        with({"--attention", kWindow, "--checkpoint-mem", "1MiB", "--mem-per-seq", "64k"}), 1,
        {"does not fit the budget", "for checkpoints"});
    expect_refused(with({"--checkpoint-mem", "1MiB", "--mem-per-seq", "64k"}), 1,
                   {"too small for one token", "1048576 of these 64000 bytes are for"});
}

TEST_F(BadInput, Paths) {
    expect_refused(run({"verify", "--paths", "bf16", "--attention", kWindow}), 2,
                   {"no path to walk", "bf16"});
    expect_refused(run({"verify", "--paths", "tokens,boat"}), 2, {"boat"});
    expect_refused(run({"verify", "-p", "", "--tokens", "9"}), 1, {"text is empty"});
}

TEST_F(BadInput, Plans) {
    const auto plan = [](std::vector<std::string> more) {
        more.insert(more.begin(), "plan");
        return run_program(more);
    };
    const std::string small = "smollm2-135m";
    expect_refused(plan({"--budget-tokens", "9"}), 2, {"no model", "-m MODEL", "--shape"});
    expect_refused(plan({"-m", model(), "--shape", small, "--budget-tokens", "9"}), 2,
                   {"more than one model", "-m MODEL", "--shape"});
    expect_refused(plan({"--shape", small}), 2, {"no budget", "--mem-per-seq", "--budget-tokens"});
    expect_refused(plan({"--shape", small, "--mem-per-seq", "1MiB", "--budget-tokens", "9"}), 2,
                   {"more than one budget", "--mem-per-seq", "--budget-tokens"});
    expect_refused(plan({"--shape", "smolm", "--budget-tokens", "9"}), 2, {"'smolm'", small});
    expect_refused(plan({"--shape", small, "--budget-tokens", "0"}), 2, {"--budget-tokens"});
    expect_refused(plan({"--shape", small, "--mem-per-seq", "lots"}), 2, {"'lots'", "72MiB"});
    expect_refused(plan({"-m", path("none.gguf"), "--budget-tokens", "9"}), 1, {path("none.gguf")});
    const auto layout = [&](const std::string& text, const std::string& tokens) {
        return plan({"--shape", small, "--budget-tokens", tokens, "--attention", text});
    };
    expect_refused(layout("otter", "9"), 2, {"otter", "bifocal"});
    expect_refused(layout("bifocal:far=otter", "9"), 2, {"layer 0", "otter", "mlstm"});
    expect_refused(layout("@layout.json", "9"), 2, {"@layout.json", "one mixer"});

    // A budget below the states alone: 192 tokens' worth of S, 3 of n, a line of m, and a window.
    expect_refused(layout("bifocal:far=mlstm,state_heads=q", "190"), 1,
                   {"the budget is too small", "at least", "got 4377600",
                    "--budget-tokens 197 is the least that works"});
    EXPECT_EQ(layout("bifocal:far=mlstm,state_heads=q", "197").status, 0);
    EXPECT_EQ(layout("bifocal:far=mlstm,state_heads=q", "196").status, 1);
    expect_refused(plan({"--shape", small, "--mem-per-seq", "1000"}), 1,
                   {"sliding_window", "--mem-per-seq 23040 is the least that works"});
    expect_refused(plan({"-m", model(), "--budget-tokens", "1", "--attention", "linear:rule=kda"}),
                   1, {"is the least that works"});
}

TEST_F(BadInput, Prompts) {
    expect_refused(run({"run", "-p", ""}), 1, {"prompt is empty"});
    expect_refused(run({"run"}, ""), 1, {"prompt is empty"});
    write_all(path("empty.txt"), "\n");
    expect_refused(run({"run", "-f", path("empty.txt")}), 1, {"prompt is empty"});
    expect_refused(run({"run", "-f", path("none.txt")}), 1, {path("none.txt")});
    expect_refused(run({"run", "-f", folder_}), 1, {"a directory"});
    expect_refused(run({"run", "-p", "ab\xFFz"}), 1, {"not valid UTF-8", "0xff at offset 2"});
    expect_refused(run({"run"}, "ab\xC3("), 1, {"standard input", "0xc3 at offset 2"});
    expect_refused(run({"run", "-p", "x", "-f", path("empty.txt")}), 2, {"--file", "--prompt"});
}

TEST_F(BadInput, PromptsLongerThanFullAttention) {
    const std::string text(65, 'a');
    expect_refused(run({"run", "-p", text}), 1, {"a prompt of 65 tokens", "at most 64", "-c 65"});
    expect_refused(run({"run", "-p", text, "-c", "30"}), 1, {"at most 30", "-c 65"});
    EXPECT_EQ(run({"run", "-p", text, "-c", "70", "-n", "2"}).status, 0);
    EXPECT_EQ(run({"run", "-p", text, "--attention", kWindow, "-n", "2"}).status, 0);
}

TEST_F(BadInput, Usage) {
    expect_refused(run_program({}), 2, {"subcommand", "--help"});
    expect_refused(run_program({"dance"}), 2, {"dance"});
    expect_refused(run({"run", "-p", "x", "--fast"}), 2, {"--fast", "bifocal run --help"});
    expect_refused(run({"run", "-p", "x", "-n", "some"}), 2, {"some"});
    expect_refused(run({"run", "-p", "x", "-n", "-2"}), 2, {"-2"});
    expect_refused(run({"run", "-p", "x", "-t", "0"}), 2, {"0"});
    expect_refused(run({"run", "-p", "x", "--kv-type", "f8"}), 2, {"f8"});
    expect_refused(run({"run", "-p", "x", "--temp", "-1"}), 2, {"-1"});
    expect_refused(run({"run", "-p", "x", "--temp", "0", "--top-k", "3"}), 2, {"--top-k"});
    expect_refused(run({"run", "-p", "x", "--system", "s"}), 2, {"--chat"});
    expect_refused(run({"perplexity", "-p", "some text", "--per-token"}), 2, {"--json"});
}

TEST_F(BadInput, DefaultModelSaysWhereItLooked) {
    ::setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
    ::unsetenv("BIFOCAL_MODEL");
    const std::string here = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    const Outcome outcome = run_program({"run", "-p", "x"});
    std::filesystem::current_path(here);
    expect_refused(outcome, 1,
                   {path("cache") + "/bifocal/models/", "./.cache/models/", "./dev demo"});
}

TEST_F(BadInput, Templates) {
    write_all(path("bad.jinja"), "{% for m in messages %}\n  {% include 'x' %}{% endfor %}");
    expect_refused(run({"run", "--chat", "--chat-template-file", path("bad.jinja"), "-p", "x"}), 1,
                   {"bad.jinja", "include", "2"});
    edit("tokenizer_config.json", "chat_template", "no_template");
    expect_refused(run({"chat"}, "hello\n"), 1, {"no chat template", "--chat-template-file"});
}

TEST_F(BadInput, UnknownRole) {
    write_all(path("m.json"), R"([{"role": "wizard", "content": "hello"}])");
    expect_refused(run_program({"template", "-m", model(), "--messages", path("m.json")}), 1,
                   {"wizard"});
}

TEST_F(BadInput, Snapshots) {
    const std::string file = path("s");
    ASSERT_EQ(
        run({"run", "-p", "hello", "-n", "3", "--attention", kWindow, "--save-state", file}).status,
        0);
    const auto load = [&](const std::string& layout) {
        return run({"run", "-n", "2", "--attention", layout, "--load-state", file});
    };
    EXPECT_EQ(load(kWindow).status, 0);
    expect_refused(load("sliding_window:window=21,sink_tokens=4"), 1, {file, "another layout"});
    const std::string good = read_all(file);
    write_all(file, good.substr(0, good.size() - 1));
    expect_refused(load(kWindow), 1, {file, "cut short"});
    write_all(file, good + "x");
    expect_refused(load(kWindow), 1, {file, "1 trailing bytes"});
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    write_all(file, bad);
    expect_refused(load(kWindow), 1, {file, "checksum"});
    bad = good;
    bad[8] = 9;
    write_all(file, bad);
    expect_refused(load(kWindow), 1, {file, "newer version"});
    write_all(file, "{}");
    expect_refused(load(kWindow), 1, {file, "not a snapshot"});
    expect_refused(run({"run", "-n", "2", "--load-state", path("none")}), 1, {path("none")});

    write_all(file, good);
    edit("config.json", "100000.0", "100001.0");  // another model
    expect_refused(load(kWindow), 1, {file, "another model"});
}

TEST_F(BadInput, NothingIsHalfWritten) {
    const std::string file = path("out/s");
    const Outcome outcome = run({"run", "-p", "hello", "-n", "1", "--save-state", file});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr(file));
    std::filesystem::create_directory(path("out"));
    write_all(file, "old");
    expect_refused(run({"run", "-p", "", "--save-state", file}), 1, {"empty"});
    EXPECT_EQ(read_all(file), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 1);
}

}  // namespace
}  // namespace bifocal::testing
