#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>

#include "cli/commands.h"
#include "cli/report.h"

namespace bifocal::cli {

int run_program(int argc, const char* const* argv) {
    CLI::App app("Runs language models at a fixed number of attention bytes per sequence.");
    app.name("bifocal");
    app.set_version_flag("--version", "bifocal " BIFOCAL_VERSION);
    app.require_subcommand(1);
    app.footer("Each command explains itself: bifocal run --help");
    int status = 0;
    add_run_command(app, status);
    add_chat_command(app, status);
    add_perplexity_command(app, status);
    add_inspect_command(app, status);
    add_plan_command(app, status);
    add_verify_command(app, status);
    add_bench_command(app, status);
    add_tokenize_command(app, status);
    add_template_command(app, status);
    add_convert_command(app, status);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
        const auto chosen = app.get_subcommands();
        if (chosen.empty() && argc > 1 && argv[1][0] != '-')
            return report({.what = fmt::format("unknown command '{}'", argv[1]),
                           .hint = "see 'bifocal --help'",
                           .kind = ErrorKind::usage});
        return report({.what = error.what(),
                       .hint = chosen.empty()
                                   ? "see 'bifocal --help'"
                                   : "see 'bifocal " + chosen[0]->get_name() + " --help'",
                       .kind = ErrorKind::usage});
    } catch (const std::bad_alloc&) {
        return report({.what = "out of memory"});
    } catch (const std::exception& error) {
        return report({.what = error.what()});
    }
    return status;
}

}  // namespace bifocal::cli
