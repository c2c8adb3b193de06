// Walks the tree of a template and writes its output.
#pragma once

#include "formats/template/ast.h"
#include "formats/template/machine.h"

namespace bifocal::jinja {

// Renders with the machine's variables. Throws Failure.
Text run(Machine& machine, const Template& tree);

}  // namespace bifocal::jinja
