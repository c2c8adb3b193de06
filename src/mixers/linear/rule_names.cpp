#include "mixers/shared/rule_names.h"

#include "mixers/linear/rules/rules.h"

namespace bifocal {

std::vector<std::string> linear_rule_names() {
    std::vector<std::string> names;
    for (const linear::Rule& rule : linear::rules()) names.emplace_back(rule.name);
    return names;
}

std::string linear_rule_what(std::string_view name) {
    const linear::Rule* const rule = linear::find_rule(name);
    return rule ? std::string(rule->what) : "";
}

}  // namespace bifocal
