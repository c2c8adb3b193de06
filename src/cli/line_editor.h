// Lines from a person: editing and history on a terminal (libedit), plain lines otherwise.
#pragma once

#include <memory>
#include <string>

namespace bifocal::cli {

class LineEditor {
  public:
    LineEditor();
    ~LineEditor();
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    enum class Event { line, interrupted, end };
    // The next line, without its newline. The prompt shows on a terminal only.
    Event read(const std::string& prompt, std::string& line);
    bool is_terminal() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bifocal::cli
