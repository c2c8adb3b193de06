#include "cli/memory_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/report.h"

namespace bifocal::cli {

std::vector<std::vector<std::string>> memory_rows(const MemoryReport& report) {
    std::vector<std::vector<std::string>> rows;
    const int64_t bytes = report.state_bytes + report.checkpoint_bytes;
    rows.push_back(
        {"memory per sequence",
         fmt::format("{} ({} bytes), now and at {}", bytes_text(bytes), count_text(bytes),
                     report.capacity < 0 ? "any length"
                                         : fmt::format("any length up to {} tokens",
                                                       count_text(report.capacity)))});
    if (report.checkpoint_bytes > 0)
        rows.push_back(
            {"checkpoints, of these",
             fmt::format("{} ({} bytes); {} of {} tokens can be taken back",
                         bytes_text(report.checkpoint_bytes), count_text(report.checkpoint_bytes),
                         count_text(report.rewind_limit), count_text(report.position))});
    const double ratio =
        static_cast<double>(report.full_attention_bytes) / static_cast<double>(bytes);
    rows.push_back(
        {"full attention would take",
         fmt::format("{} after these {} tokens{}", bytes_text(report.full_attention_bytes),
                     count_text(report.position),
                     ratio > 1 ? fmt::format(", {:.2f} times as much", ratio) : "")});
    rows.push_back(
        {"left the window",
         report.tokens_left == 0
             ? fmt::format("none of {} tokens", count_text(report.position))
             : fmt::format("{} of {} tokens; {} can still be read", count_text(report.tokens_left),
                           count_text(report.position), count_text(report.tokens_visible))});
    rows.push_back({"scratch, shared", fmt::format("{} workspace, {} logits per sequence",
                                                   bytes_text(report.workspace_bytes),
                                                   bytes_text(report.logits_bytes))});
    return rows;
}

nlohmann::ordered_json memory_json(const MemoryReport& report) {
    return {{"position", report.position},
            {"state_bytes", report.state_bytes},
            {"checkpoint_bytes", report.checkpoint_bytes},
            {"allocated_bytes", report.allocated_bytes},
            {"full_attention_bytes", report.full_attention_bytes},
            {"tokens_visible", report.tokens_visible},
            {"tokens_left_window", report.tokens_left},
            {"rewind_limit", report.rewind_limit},
            {"max_tokens", report.capacity},
            {"logits_bytes", report.logits_bytes},
            {"workspace_bytes", report.workspace_bytes}};
}

double per_second(int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

std::string speed_text(int64_t tokens, double seconds) {
    return fmt::format("{} tokens in {:.2f} s, {:.1f} tokens/s", count_text(tokens), seconds,
                       per_second(tokens, seconds));
}

}  // namespace bifocal::cli
