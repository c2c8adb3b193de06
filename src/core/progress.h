// Progress: a bar on the terminal for long work. Silent when the stream is no terminal, so that
// logs and pipes stay clean.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bifocal {

class Progress {
  public:
    // `unit` as in "120 tokens". Draws on standard error. `total` > 0.
    Progress(std::string label, int64_t total, std::string unit);
    ~Progress();  // wipes the bar
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(int64_t done);  // draws at most ten times a second

  private:
    void clear();

    std::string label_, unit_;
    int64_t total_;
    bool shown_ = false, is_terminal_;
    std::chrono::steady_clock::time_point begin_, drawn_;
};

// One line of a bar, `width` columns at most: "reading  [#####.....]  50%  120/240 tokens  3 s
// left"
std::string progress_line(const std::string& label, int64_t done, int64_t total,
                          const std::string& unit, double seconds, int width);

}  // namespace bifocal
