// Ctrl-C as a question that loops ask, instead of an end in the middle of things.
#pragma once

namespace bifocal::cli {

// From now on the first Ctrl-C only answers interrupted(); a second one before
// clear_interrupt() ends the program.
void catch_interrupts();
bool interrupted();
void clear_interrupt();

// Waits until `fd` can be read or has ended; false when Ctrl-C came first.
bool wait_readable(int fd);

}  // namespace bifocal::cli
