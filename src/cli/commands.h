// The commands of the program, one file each. Every function adds one subcommand to the parser; the
// subcommand's callback runs it and leaves the exit status (0 done, 1 failure, 2 usage).
// Only forward declarations here: CLI11 is slow to compile.
#pragma once

namespace CLI {
class App;
}

namespace bifocal::cli {

void add_run_command(CLI::App& app, int& exit_status);
void add_chat_command(CLI::App& app, int& exit_status);
void add_inspect_command(CLI::App& app, int& exit_status);
void add_perplexity_command(CLI::App& app, int& exit_status);
void add_plan_command(CLI::App& app, int& exit_status);
void add_verify_command(CLI::App& app, int& exit_status);
void add_bench_command(CLI::App& app, int& exit_status);
void add_tokenize_command(CLI::App& app, int& exit_status);
void add_template_command(CLI::App& app, int& exit_status);
void add_convert_command(CLI::App& app, int& exit_status);

}  // namespace bifocal::cli
