#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstring>

#include "cli/interrupt.h"

namespace bifocal::cli {

struct LineEditor::Impl {
    bool is_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::string prompt;
    std::string rest;  // bytes read and not yet given out, when stdin is no terminal

    bool read_plain(std::string& line, bool& was_interrupted);
};

namespace {

const char* prompt_of(EditLine* editor) {
    std::string* prompt = nullptr;
    el_get(editor, EL_CLIENTDATA, &prompt);
    return prompt->c_str();
}

// One character from the keyboard, which comes as UTF-8. libedit's own reader would go on after
// Ctrl-C; this one ends the line.
int read_key(EditLine*, wchar_t* key) {
    unsigned char first = 0;
    if (!wait_readable(STDIN_FILENO)) return -1;
    const ssize_t n = ::read(STDIN_FILENO, &first, 1);
    if (n == 0) return 0;
    if (n < 0) return -1;
    // A Ctrl-D typed while the terminal was not ours was its end of file, and reaches us as a zero.
    constexpr unsigned char kEndOfFile = 4;
    if (first == 0) first = kEndOfFile;
    const int more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    auto code = static_cast<uint32_t>(more == 0 ? first : first & (0x3F >> more));
    for (int i = 0; i < more; ++i) {
        unsigned char next = 0;
        if (::read(STDIN_FILENO, &next, 1) != 1) return -1;
        code = code << 6 | (next & 0x3Fu);
    }
    *key = static_cast<wchar_t>(code);
    return 1;
}

}  // namespace

LineEditor::LineEditor() : impl_(std::make_unique<Impl>()) {
    if (!impl_->is_terminal) return;
    const char* const locale = std::setlocale(LC_CTYPE, "");
    if (!locale || !std::strstr(locale, "UTF-8")) std::setlocale(LC_CTYPE, "C.UTF-8");
    impl_->editor = el_init("bifocal", stdin, stdout, stderr);
    impl_->history = history_init();
    HistEvent event;
    history(impl_->history, &event, H_SETSIZE, 1000);
    history(impl_->history, &event, H_SETUNIQUE, 1);
    el_set(impl_->editor, EL_EDITOR, "emacs");
    el_set(impl_->editor, EL_SIGNAL, 0);
    el_set(impl_->editor, EL_HIST, history, impl_->history);
    el_set(impl_->editor, EL_GETCFN, read_key);
    el_set(impl_->editor, EL_CLIENTDATA, &impl_->prompt);
    el_set(impl_->editor, EL_PROMPT, prompt_of);
}

LineEditor::~LineEditor() {
    if (impl_->history) history_end(impl_->history);
    if (impl_->editor) el_end(impl_->editor);
}

bool LineEditor::is_terminal() const {
    return impl_->is_terminal;
}

bool LineEditor::Impl::read_plain(std::string& line, bool& was_interrupted) {
    while (true) {
        const size_t end = rest.find('\n');
        if (end != std::string::npos) {
            line = rest.substr(0, end);
            rest.erase(0, end + 1);
            return true;
        }
        char buffer[4096];
        was_interrupted = !wait_readable(STDIN_FILENO);
        if (was_interrupted) return false;
        const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
        if (n <= 0) {
            line = std::move(rest);
            rest.clear();
            return !line.empty();
        }
        rest.append(buffer, static_cast<size_t>(n));
    }
}

LineEditor::Event LineEditor::read(const std::string& prompt, std::string& line) {
    if (!impl_->is_terminal) {
        bool was_interrupted = false;
        if (impl_->read_plain(line, was_interrupted)) return Event::line;
        return was_interrupted ? Event::interrupted : Event::end;
    }
    impl_->prompt = prompt;
    int n = 0;
    const char* const text = el_gets(impl_->editor, &n);
    if (!text || n <= 0) {
        const bool was_interrupted = interrupted();
        if (was_interrupted) el_reset(impl_->editor);
        std::fputc('\n', stdout);
        return was_interrupted ? Event::interrupted : Event::end;
    }
    line.assign(text, static_cast<size_t>(n));
    if (line.ends_with('\n')) line.pop_back();
    HistEvent event;
    if (line.find_first_not_of(' ') != std::string::npos)
        history(impl_->history, &event, H_ENTER, line.c_str());
    return Event::line;
}

}  // namespace bifocal::cli
