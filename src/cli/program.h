// The command line as a whole: parses it, runs one command, gives the exit status.
#pragma once

namespace bifocal::cli {

// 0 done, 1 failure, 2 usage, 130 stopped by Ctrl-C.
int run_program(int argc, const char* const* argv);

}  // namespace bifocal::cli
