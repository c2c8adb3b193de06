// What the linear family can be asked for, for lists outside of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bifocal {

// Values of the option `rule` of the mixer `linear`, in the order of its README.
std::vector<std::string> linear_rule_names();
// What such a rule is, in one line; empty: there is none of this name.
std::string linear_rule_what(std::string_view name);

}  // namespace bifocal
