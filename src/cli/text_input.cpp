#include "cli/text_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "formats/unicode/utf8.h"

namespace bifocal::cli {

void add_text_options(CLI::App& app, TextArgs& args) {
    auto* text = app.add_option_function<std::string>(
        "-p,--prompt",
        [&args](const std::string& value) {
            args.text = value;
            args.has_text = true;
        },
        "text");
    app.add_option_function<std::string>(
           "-f,--file",
           [&args](const std::string& value) {
               args.file = value;
               args.has_file = true;
           },
           "file with the text; '-' or neither option: standard input")
        ->excludes(text);
}

Result<std::string> read_file(const std::string& path) {
    const bool is_stdin = path == "-";
    const std::string name = is_stdin ? "standard input" : path;
    std::error_code ignored;
    if (!is_stdin && std::filesystem::is_directory(path, ignored))
        return Error{.what = "cannot read a file", .where = path, .got = "a directory"};
    std::FILE* const file = is_stdin ? stdin : std::fopen(path.c_str(), "rb");
    if (!file)
        return Error{.what = "cannot open the file", .where = name, .got = std::strerror(errno)};
    std::string text;
    char buffer[1 << 16];
    while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, n);
    const bool failed = std::ferror(file) != 0;
    const int why = errno;
    if (!is_stdin) std::fclose(file);
    if (failed)
        return Error{.what = "cannot read the file", .where = name, .got = std::strerror(why)};
    return text;
}

Result<std::string> read_text(const TextArgs& args, const std::string& what) {
    std::string text = args.text;
    std::string where = "-p";
    if (!args.has_text) {
        if (!args.has_file && ::isatty(STDIN_FILENO) == 1)
            return Error{.what = fmt::format("no {}", what),
                         .expected = "-p TEXT, -f FILE, or text on standard input",
                         .kind = ErrorKind::usage};
        BIFOCAL_TRY(text, read_file(args.has_file ? args.file : "-"));
        where = args.has_file && args.file != "-" ? args.file : "standard input";
    }
    if (const size_t at = unicode::find_invalid(text); at != std::string::npos)
        return Error{.what = fmt::format("the {} is not valid UTF-8", what),
                     .where = where,
                     .got = fmt::format("byte 0x{:02x} at offset {}",
                                        static_cast<unsigned char>(text[at]), at)};
    return text;
}

}  // namespace bifocal::cli
