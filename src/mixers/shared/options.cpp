#include "mixers/shared/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/json/json.h"

namespace bifocal {

void OptionReader::fail(std::string_view name, std::string expected) {
    if (error_) return;
    const auto it = given_.options.find(name);
    error_ = Error{.what = fmt::format("option '{}'", name),
                   .where = given_.to_string(),
                   .expected = std::move(expected),
                   .got = it == given_.options.end() ? "nothing" : json::to_text(*it),
                   .kind = ErrorKind::usage};
}

int64_t OptionReader::integer(std::string_view name, std::optional<int64_t> fallback, int64_t min,
                              int64_t max) {
    known_.emplace_back(name);
    const auto it = given_.options.find(name);
    int64_t value = fallback.value_or(min);
    if (it != given_.options.end()) {
        const bool fits = it->is_number_integer() &&
                          (!it->is_number_unsigned() || it->get<uint64_t>() <= INT64_MAX);
        if (fits) value = it->get<int64_t>();
        if (!fits || value < min || value > max) {
            fail(name, fmt::format("a whole number from {} to {}", min, max));
            value = min;
        }
    } else if (!fallback) {
        fail(name, fmt::format("a whole number from {} to {}", min, max));
    }
    explicit_.options[std::string(name)] = value;
    return value;
}

double OptionReader::number(std::string_view name, double fallback, double min, double max) {
    known_.emplace_back(name);
    const auto it = given_.options.find(name);
    double value = fallback;
    if (it != given_.options.end()) {
        if (it->is_number()) value = it->get<double>();
        if (!it->is_number() || !(value >= min && value <= max)) {
            fail(name, fmt::format("a number from {} to {}", min, max));
            value = fallback;
        }
    }
    explicit_.options[std::string(name)] = value;
    return value;
}

bool OptionReader::boolean(std::string_view name, bool fallback) {
    known_.emplace_back(name);
    const auto it = given_.options.find(name);
    bool value = fallback;
    if (it != given_.options.end()) {
        if (it->is_boolean()) {
            value = it->get<bool>();
        } else {
            fail(name, "true or false");
        }
    }
    explicit_.options[std::string(name)] = value;
    return value;
}

std::string OptionReader::choice(std::string_view name, std::string_view fallback,
                                 std::initializer_list<std::string_view> known) {
    known_.emplace_back(name);
    std::string value(fallback);
    const auto it = given_.options.find(name);
    if (it != given_.options.end()) {
        if (it->is_string()) value = it->get<std::string>();
        if (!it->is_string() || std::ranges::find(known, value) == known.end()) {
            fail(name, fmt::format("one of {}", fmt::join(known, ", ")));
        }
    }
    explicit_.options[std::string(name)] = value;
    return value;
}

// Required.
std::string OptionReader::choice(std::string_view name,
                                 const std::vector<std::string_view>& known) {
    known_.emplace_back(name);
    const auto it = given_.options.find(name);
    std::string value;
    if (it != given_.options.end() && it->is_string()) value = it->get<std::string>();
    if (std::ranges::find(known, value) == known.end())
        fail(name, fmt::format("one of {}", fmt::join(known, ", ")));
    explicit_.options[std::string(name)] = value;
    return value;
}

std::string OptionReader::text(std::string_view name) {
    known_.emplace_back(name);
    const auto it = given_.options.find(name);
    if (it == given_.options.end()) return {};
    if (!it->is_string() || it->get_ref<const std::string&>().empty()) {
        fail(name, "a text");
        return {};
    }
    explicit_.options[std::string(name)] = *it;
    return it->get<std::string>();
}

void OptionReader::require(bool holds, std::string_view name, std::string expected) {
    if (!holds) fail(name, std::move(expected));
}

void OptionReader::require(Status status) {
    if (!status.ok() && !error_) error_ = std::move(status).error();
}

Result<MixerSpec> OptionReader::finish() {
    for (const auto& [name, value] : given_.options.items()) {
        if (std::ranges::find(known_, name) == known_.end()) {
            return Error{.what = fmt::format("unknown option '{}'", name),
                         .where = given_.to_string(),
                         .expected = known_.empty()
                                         ? "no options"
                                         : fmt::format("one of {}", fmt::join(known_, ", ")),
                         .kind = ErrorKind::usage};
        }
    }
    if (error_) return *error_;
    return explicit_;
}

}  // namespace bifocal
