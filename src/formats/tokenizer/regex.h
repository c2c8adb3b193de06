// Regular expressions of tokenizer files for patterns without a scanner: PCRE2 made to agree with
// the Oniguruma (Ruby) syntax that these files are written for. What would mean something else
// there, or could run away, is refused.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "bifocal/error.h"

namespace bifocal::tokenizer {

class Regex {
  public:
    static Result<Regex> compile(std::string_view pattern, const std::string& where);

    // Calls match(begin, end) for each match from left to right; no empty match follows directly
    // on another match. Fails when the match limits are hit. REQUIRES: valid UTF-8. Thread-safe.
    Status for_each(std::string_view text, const std::function<void(size_t, size_t)>& match) const;

  private:
    std::shared_ptr<const void> code_;  // pcre2_code
    std::string pattern_;
};

// The same pattern in PCRE2's syntax; the rewriting behind Regex, apart so that it can be tested.
Result<std::string> to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace bifocal::tokenizer
