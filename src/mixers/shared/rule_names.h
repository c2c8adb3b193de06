// What the linear family can be asked for, for lists outside of it.
#pragma once

#include <string>
#include <vector>

namespace bifocal {

// Values of the option `rule` of the mixer `linear`, in the order of its README.
std::vector<std::string> linear_rule_names();

}  // namespace bifocal
