#include "mixers/shared/rule_names.h"

#include "mixers/linear/rules/rules.h"

namespace bifocal {

std::vector<std::string> linear_rule_names() {
    std::vector<std::string> names;
    for (const linear::Rule& rule : linear::rules()) names.emplace_back(rule.name);
    return names;
}

}  // namespace bifocal
