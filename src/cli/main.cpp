// The program. Commands are in files of their own; program.cpp puts them together.
#include "cli/program.h"

int main(int argc, char** argv) {
    return bifocal::cli::run_program(argc, argv);
}
