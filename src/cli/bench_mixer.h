// `bifocal bench mixer`.
#pragma once

namespace CLI {
class App;
}

namespace bifocal::cli {

void add_bench_mixer_command(CLI::App& bench, int& exit_status);

}  // namespace bifocal::cli
