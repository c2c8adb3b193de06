// Decodes for long on a tiny model and tells what grew.
#pragma once

#include <cstdint>
#include <string>

namespace bifocal::testing {

struct Growth {
    int64_t state_bytes_begin = 0, state_bytes_end = 0;
    int64_t resident_bytes = 0;  // of the process, from the first token to the last
    int64_t position = 0;
};
Growth decode_many(const std::string& attention, int64_t n_tokens);

// Resident memory of this process.
int64_t resident_bytes();

}  // namespace bifocal::testing
