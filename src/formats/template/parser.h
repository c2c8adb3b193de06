// Builds the tree of a template. What the language has and this engine has not is refused here,
// with its place, so that a template fails when it is loaded and not in the middle of a
// conversation.
#pragma once

#include <memory>
#include <string_view>

#include "formats/template/ast.h"

namespace bifocal::jinja {

inline constexpr uint32_t kMaxExprDepth = 200;
inline constexpr int kMaxStmtDepth = 100;
inline constexpr size_t kMaxSourceBytes = size_t{1} << 20;

// Throws Failure with an offset into the normalised source.
std::unique_ptr<Template> parse(std::string_view source);

}  // namespace bifocal::jinja
