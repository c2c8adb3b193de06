// Decides, once per template, which variable every name means. Jinja gives loops, macros, blocks
// and `with` frames of their own; a name that a frame stores anywhere is the frame's own variable
// everywhere in it, and `set` inside `if` belongs to the frame around.
#pragma once

#include "formats/template/ast.h"

namespace bifocal::jinja {

// Fills the frames and variable references of the tree. Throws Failure for calls of functions that
// neither the template nor the engine defines.
void resolve_variables(Template& tree);

}  // namespace bifocal::jinja
