#include "bifocal/error.h"

namespace bifocal {

std::string Error::message() const {
    std::string line;
    if (!where.empty()) line += where + ": ";
    line += what;
    if (!expected.empty()) line += ": expected " + expected;
    if (!got.empty()) line += (expected.empty() ? ": got " : ", got ") + got;
    if (!hint.empty()) line += "; " + hint;
    for (char& c : line) {
        // File names, keys and values come from the outside: keep the promise of one printable
        // line.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return line;
}

}  // namespace bifocal
