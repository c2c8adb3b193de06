// Text from the outside: -p TEXT, -f FILE, or standard input.
#pragma once

#include <string>

#include "bifocal/error.h"

namespace CLI {
class App;
}

namespace bifocal::cli {

struct TextArgs {
    std::string text, file;
    bool has_text = false, has_file = false;
};

void add_text_options(CLI::App& app, TextArgs& args);

// `what` names the text in errors ("prompt"). Ill-formed UTF-8 is an error with its offset. Without
// -p and -f standard input is read, unless it is a terminal.
Result<std::string> read_text(const TextArgs& args, const std::string& what);

// A whole file; "-" is standard input.
Result<std::string> read_file(const std::string& path);

}  // namespace bifocal::cli
