// The lines below a run: speed, and what the sequence costs in memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bifocal/session.h"

namespace bifocal::cli {

// Rows of list(): name and text.
std::vector<std::vector<std::string>> memory_rows(const MemoryReport& report);
nlohmann::ordered_json memory_json(const MemoryReport& report);

// "3,012 tokens in 12.10 s, 249.0 tokens/s"
std::string speed_text(int64_t tokens, double seconds);
double per_second(int64_t tokens, double seconds);

}  // namespace bifocal::cli
