#include "program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace bifocal::testing {
namespace {

using nlohmann::ordered_json;

// Characters of the byte-level alphabet: printable ASCII as itself, space and newline shifted.
ordered_json vocabulary() {
    ordered_json vocab;
    vocab["<|im_start|>"] = 0;
    vocab["<|im_end|>"] = 2;
    vocab["<|endoftext|>"] = 5;
    int id = 1;
    const auto add = [&](const std::string& token) {
        vocab[token] = id++;
        while (id == 2 || id == 5) ++id;
    };
    add("\u0120");  // space
    add("\u010A");  // newline
    for (char c = '!'; c < '~'; ++c)
        if (c != '`') add(std::string(1, c));
    return vocab;
}

ordered_json added_token(const char* content, int id) {
    return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", true}};
}

void write_tokenizer(const std::string& folder) {
    const ordered_json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", false}};
    const ordered_json tokenizer = {{"version", "1.0"},
                                    {"truncation", nullptr},
                                    {"padding", nullptr},
                                    {"added_tokens",
                                     {added_token("<|im_start|>", 0), added_token("<|im_end|>", 2),
                                      added_token("<|endoftext|>", 5)}},
                                    {"normalizer", nullptr},
                                    {"pre_tokenizer", byte_level},
                                    {"post_processor", nullptr},
                                    {"decoder", byte_level},
                                    {"model",
                                     {{"type", "BPE"},
                                      {"dropout", nullptr},
                                      {"unk_token", nullptr},
                                      {"continuing_subword_prefix", nullptr},
                                      {"end_of_word_suffix", nullptr},
                                      {"fuse_unk", false},
                                      {"byte_fallback", false},
                                      {"vocab", vocabulary()},
                                      {"merges", ordered_json::array()}}}};
    write_all(folder + "/tokenizer.json", tokenizer.dump());
    const ordered_json config = {
        {"eos_token", "<|im_end|>"},
        {"chat_template",
         "{% for message in messages %}"
         "{% if message.role not in ['system', 'user', 'assistant'] %}"
         "{{ raise_exception('unknown role ' + message.role) }}{% endif %}"
         "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"}};
    write_all(folder + "/tokenizer_config.json", config.dump());
}

// Reads both ends until they close; interrupts the child once enough came out.
void collect(int out, int err, pid_t child, size_t interrupt_after, Outcome& outcome) {
    pollfd ends[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    bool is_interrupted = interrupt_after == 0;
    int open = 2;
    while (open > 0) {
        const int n_ready = ::poll(ends, 2, kPatience);
        if (n_ready < 0) continue;
        if (n_ready == 0) {
            ADD_FAILURE() << "the program has said nothing for a minute after: " << outcome.out
                          << outcome.err;
            ::kill(child, SIGKILL);
            return;
        }
        for (pollfd& end : ends) {
            if (end.fd < 0 || end.revents == 0) continue;
            char buffer[4096];
            const ssize_t n = ::read(end.fd, buffer, sizeof buffer);
            if (n <= 0) {
                end.fd = -1;
                --open;
                continue;
            }
            (&end == ends ? outcome.out : outcome.err).append(buffer, static_cast<size_t>(n));
        }
        if (!is_interrupted && outcome.out.size() >= interrupt_after) {
            ::kill(child, SIGINT);
            is_interrupted = true;
        }
    }
}

}  // namespace

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
}

void write_all(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

Outcome run_program(const std::vector<std::string>& arguments, const std::string& input,
                    size_t interrupt_after_bytes) {
    // Input by a file, so that a program that does not read it never meets a closed pipe.
    std::FILE* const in = std::tmpfile();
    std::fwrite(input.data(), 1, input.size(), in);
    std::rewind(in);
    int out[2], err[2];
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
    std::vector<char*> argv = {const_cast<char*>(BIFOCAL_PROGRAM)};
    for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
        ::dup2(::fileno(in), STDIN_FILENO);
        ::dup2(out[1], STDOUT_FILENO);
        ::dup2(err[1], STDERR_FILENO);
        ::execv(argv[0], argv.data());
        _exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    Outcome outcome;
    collect(out[0], err[0], child, interrupt_after_bytes, outcome);
    ::close(out[0]);
    ::close(err[0]);
    std::fclose(in);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

ProgramTest::ProgramTest() {
    std::string name = (std::filesystem::temp_directory_path() / "bifocal-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    const std::string golden = BIFOCAL_SOURCE_DIR "/tests/golden/models/llama_tied/";
    std::filesystem::create_directory(model());
    for (const char* file : {"config.json", "generation_config.json", "model.safetensors"})
        std::filesystem::copy_file(golden + file, model() + "/" + file);
    write_tokenizer(model());
}

ProgramTest::~ProgramTest() {
    std::filesystem::remove_all(folder_);
}

Outcome ProgramTest::run(std::vector<std::string> arguments, const std::string& input) const {
    // Two words make a bench.
    const auto at = arguments.begin() + (arguments[0] == "bench" ? 2 : 1);
    const std::string flags[] = {"-m", model(), "-t", "1"};
    arguments.insert(at, std::begin(flags), std::end(flags));
    return run_program(arguments, input);
}

void expect_refused(const Outcome& outcome, int status, const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("bifocal: ")) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, ::testing::HasSubstr(word));
}

}  // namespace bifocal::testing
