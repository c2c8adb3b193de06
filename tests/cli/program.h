// Runs the built program as a user would, with a tiny model that the tests write themselves.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bifocal::testing {

struct Outcome {
    int status = -1;  // exit status; 128 + n for a signal
    std::string out, err;
};

// Arguments after the program's name; `input` is its standard input. With `interrupt_after_bytes`
// SIGINT is sent once that much came out.
Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                    size_t interrupt_after_bytes = 0);

// Milliseconds without a sign of life after which a test gives a program up, so that a failure is a
// failure and not a hang.
inline constexpr int kPatience = 60'000;

std::string read_all(const std::string& path);
void write_all(const std::string& path, const std::string& bytes);

// A folder of its own for each test, with a model: 2 layers, width 32, 97 tokens, 64 tokens of
// context, a tokenizer of one token per character, a ChatML template.
class ProgramTest : public ::testing::Test {
  protected:
    ProgramTest();
    ~ProgramTest() override;

    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    std::string model() const { return path("model"); }
    // "COMMAND -m MODEL arguments..."
    Outcome run(std::vector<std::string> arguments, const std::string& input = "") const;

    std::string folder_;
};

// One line on standard error, "bifocal: ...", that holds all the words; nothing on standard output.
void expect_refused(const Outcome& outcome, int status, const std::vector<std::string>& words);

}  // namespace bifocal::testing
