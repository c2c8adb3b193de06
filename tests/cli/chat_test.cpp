// The chat, by a pipe and on a terminal.
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace bifocal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kWindow = "sliding_window:window=300,sink_tokens=4";

class Chat : public ProgramTest {
  protected:
    Outcome chat(const std::string& input, std::vector<std::string> more = {}) const {
        std::vector<std::string> arguments = {"chat", "--attention", kWindow, "-n",
                                              "12",   "--temp",      "0",     "--ignore-eos"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(arguments, input);
    }
    static int64_t tokens_in(const std::string& memory) {
        const size_t at = memory.find("none of ");
        return at == std::string::npos ? -1 : std::atoll(memory.c_str() + at + 8);
    }
};

TEST_F(Chat, TurnsFollowOneAnother) {
    const Outcome outcome = chat("hello\nand you?\n/memory\n");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("memory per sequence"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("again")));
    EXPECT_GT(tokens_in(outcome.out), 2 * 12 + 13);
}

TEST_F(Chat, SavedAndLoadedItAnswersTheSame) {
    const Outcome whole = chat("hello\nand you?\n");
    const Outcome first = chat("hello\n/save " + path("s") + "\n");
    const Outcome second = chat("/load " + path("s") + "\nand you?\n");
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(first.out + second.out, whole.out);
    const Outcome flag = chat("and you?\n", {"--load-state", path("s")});
    EXPECT_EQ(flag.out, second.out);
}

TEST_F(Chat, AForkLeavesTheOriginalAlone) {
    const Outcome straight = chat("hello\nand you?\n");
    const Outcome forked = chat("hello\n/fork\nsomething else\n/switch 1\nand you?\n");
    EXPECT_EQ(forked.status, 0) << forked.err;
    const size_t first_answer = chat("hello\n").out.size();
    EXPECT_TRUE(forked.out.ends_with(straight.out.substr(first_answer)));
    EXPECT_THAT(forked.err, HasSubstr("/switch 1 goes back"));
}

TEST_F(Chat, ResetForgets) {
    const Outcome outcome = chat("hello\n/reset\nhello\n");
    const size_t half = outcome.out.size() / 2;
    EXPECT_EQ(outcome.out.substr(0, half), outcome.out.substr(half));
}

TEST_F(Chat, UndoTakesATurnBack) {
    const Outcome straight = chat("hello\nand you?\n");
    const Outcome undone = chat("hello\nsomething else\n/undo\nand you?\n/memory\n");
    EXPECT_EQ(undone.status, 0) << undone.err;
    const std::string first = chat("hello\n").out;
    EXPECT_THAT(undone.out, HasSubstr("\n" + straight.out.substr(first.size()) + "layout"));
    // The window has not turned yet, so nothing was read again.
    EXPECT_THAT(undone.err, Not(HasSubstr("read again")));
    EXPECT_THAT(chat("/undo\n").err, HasSubstr("no turn to take back"));
}

TEST_F(Chat, StatesThatForgetGoBackByCheckpointsOrReadAllAgain) {
    ASSERT_EQ(run_program({"convert", "-m", model(), "--attention", "linear:rule=mlstm", "-o",
                           path("student")})
                  .status,
              0);
    const auto chat_with = [&](const std::string& input, std::vector<std::string> more) {
        std::vector<std::string> arguments = {"chat", "-m", path("student"), "-t", "1",
                                              "-n",   "12", "--temp",        "0",  "--ignore-eos"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_program(arguments, input);
    };
    const std::string turns = "hello\nsomething else\n/undo\nand you?\n";
    const std::string straight = chat_with("hello\nand you?\n", {}).out;
    const std::string first = chat_with("hello\n", {}).out;
    const Outcome again = chat_with(turns, {});
    EXPECT_THAT(again.err, HasSubstr("all 65 tokens were read again"));
    EXPECT_TRUE(again.out.ends_with(straight.substr(first.size())));
    const Outcome back = chat_with(turns, {"--checkpoint-mem", "400k"});
    EXPECT_EQ(back.err, "");
    EXPECT_TRUE(back.out.ends_with(straight.substr(first.size())));
}

TEST_F(Chat, TypedControlTokensStayText) {
    const Outcome plain = chat("ab\n/memory\n"), typed = chat("<|im_end|>\n/memory\n");
    EXPECT_EQ(tokens_in(typed.out) - tokens_in(plain.out), 10 - 2);
}

TEST_F(Chat, MistakesAreSaidAndTheChatGoesOn) {
    const Outcome outcome = chat("/dance\n/load " + path("none") +
                                 "\n/save\n/memory x\n/switch 7\nab\xFF\n/help\n/memory\n");
    EXPECT_EQ(outcome.status, 1);  // of the message that was not UTF-8
    for (const char* word : {"'/dance'", "none", "/save takes one argument",
                             "/memory takes no argument", "1 to 1", "not valid UTF-8"})
        EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_THAT(outcome.out, HasSubstr("/fork"));
    EXPECT_THAT(outcome.out, HasSubstr("memory per sequence"));
}

TEST_F(Chat, ASnapshotOfARunHoldsNoConversation) {
    ASSERT_EQ(run({"run", "-p", "x", "-n", "1", "--attention", kWindow, "--save-state", path("s")})
                  .status,
              0);
    expect_refused(chat("", {"--load-state", path("s")}), 1, {"no conversation"});
}

// A person at a terminal.
class Terminal {
  public:
    explicit Terminal(const std::vector<std::string>& arguments) {
        child_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
        if (child_ == 0) {
            ::setenv("TERM", "xterm", 1);
            std::vector<char*> argv = {const_cast<char*>(BIFOCAL_PROGRAM)};
            for (const std::string& argument : arguments)
                argv.push_back(const_cast<char*>(argument.c_str()));
            argv.push_back(nullptr);
            ::execv(argv[0], argv.data());
            _exit(127);
        }
    }
    ~Terminal() {
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            ::waitpid(child_, nullptr, 0);
        }
        ::close(fd_);
    }
    void type(const std::string& text) {
        EXPECT_EQ(::write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    // Reads until `text` was seen since the last call; false when the program ended first.
    bool see(const std::string& text) {
        while (true) {
            const size_t found = screen_.find(text, at_);
            if (found != std::string::npos) {
                at_ = found + text.size();
                return true;
            }
            if (!read_more()) return false;
        }
    }
    // Reads until at least n more bytes came.
    void see_bytes(size_t n) {
        const size_t goal = screen_.size() + n;
        while (screen_.size() < goal && read_more()) {
        }
        at_ = screen_.size();
    }
    int end() {
        int status = 0;
        while (read_more()) {
        }
        ::waitpid(child_, &status, 0);
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

  private:
    // False when the program ended, or was given up and killed.
    bool read_more() {
        pollfd end = {fd_, POLLIN, 0};
        if (::poll(&end, 1, kPatience) == 0) {
            ADD_FAILURE() << "the program has said nothing for a minute after: " << screen_;
            ::kill(child_, SIGKILL);
            return false;
        }
        char buffer[4096];
        const ssize_t n = ::read(fd_, buffer, sizeof buffer);
        if (n <= 0) return false;
        screen_.append(buffer, static_cast<size_t>(n));
        return true;
    }

    int fd_ = -1;
    pid_t child_ = -1;
    std::string screen_;
    size_t at_ = 0;
};

TEST_F(Chat, CtrlCStopsTheAnswerAndKeepsTheChat) {
    Terminal terminal(
        {"chat", "-m", model(), "-t", "1", "--attention", kWindow, "--seed", "1", "--ignore-eos"});
    ASSERT_TRUE(terminal.see("> "));
    terminal.type("hello\n");
    terminal.see_bytes(400);  // an answer without end
    terminal.type("\x03");
    ASSERT_TRUE(terminal.see("tokens/s]"));
    ASSERT_TRUE(terminal.see("> "));
    terminal.type("half a line\x03");  // at the prompt: only the line goes
    ASSERT_TRUE(terminal.see("> "));
    terminal.type("/memory\n");
    ASSERT_TRUE(terminal.see("memory per sequence"));
    terminal.type("/quit\n");
    EXPECT_EQ(terminal.end(), 0);
}

TEST_F(Chat, LinesCanBeEditedAndCalledBack) {
    Terminal terminal({"chat", "-m", model(), "-t", "1", "--attention", kWindow, "-n", "2"});
    ASSERT_TRUE(terminal.see("> "));
    terminal.type("/memorz\x7fy\n");  // backspace
    ASSERT_TRUE(terminal.see("memory per sequence"));
    ASSERT_TRUE(terminal.see("> "));
    terminal.type("\x1b[A\n");  // arrow up
    ASSERT_TRUE(terminal.see("memory per sequence"));
    terminal.type("\x04");  // Ctrl-D, maybe before the program reads keys again
    EXPECT_EQ(terminal.end(), 0);
}

}  // namespace
}  // namespace bifocal::testing
