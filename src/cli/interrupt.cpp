#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "cli/report.h"

namespace bifocal::cli {
namespace {

volatile std::sig_atomic_t caught = 0;

void on_interrupt(int) {
    if (caught != 0) _exit(kInterrupted);
    caught = 1;
}

}  // namespace

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // no SA_RESTART: reads at a prompt end too
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() {
    return caught != 0;
}

void clear_interrupt() {
    caught = 0;
}

}  // namespace bifocal::cli
