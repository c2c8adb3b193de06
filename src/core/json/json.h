// Strict JSON for everything that we read: well-formed UTF-8, no key twice at any level, bounded
// depth, nothing after the value, no comments. Errors come back as values. Fields reads objects
// with typed getters whose errors name the place.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::json {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys; lookups are linear

struct Limits {
    int depth = 64;  // of objects and arrays within one another
    size_t bytes = 256u << 20;
};

// `where` names the source in errors.
Result<Json> parse(std::string_view text, const std::string& where, const Limits& limits = {});
Result<OrderedJson> parse_ordered(std::string_view text, const std::string& where,
                                  const Limits& limits = {});
Result<Json> read_file(const std::string& path, const Limits& limits = {});

// `value` written down, on one line unless `indent` >= 0. What is not UTF-8 in its strings becomes
// U+FFFD; nlohmann's own dump() would throw there.
template <class AnyJson>
std::string to_text(const AnyJson& value, int indent = -1) {
    return value.dump(indent, ' ', false, AnyJson::error_handler_t::replace);
}

// An object and its place. A field that is missing or null is an empty optional; one of another
// type is an error. Integers must be written as such: neither 8.0 nor 1e3.
class Fields {
  public:
    static Result<Fields> of(const Json& json, std::string where);

    const Json& json() const { return *json_; }
    const std::string& where() const { return where_; }
    bool has(std::string_view key) const { return find(key) != nullptr; }
    // Null for a field that is missing or null.
    const Json* find(std::string_view key) const;

    Result<std::optional<int64_t>> integer(std::string_view key,
                                           int64_t min = std::numeric_limits<int64_t>::min(),
                                           int64_t max = std::numeric_limits<int64_t>::max()) const;
    Result<std::optional<double>> number(std::string_view key) const;  // integers too
    Result<std::optional<bool>> boolean(std::string_view key) const;
    Result<std::optional<std::string>> string(std::string_view key) const;
    Result<std::optional<Fields>> object(std::string_view key) const;
    Result<std::optional<std::vector<double>>> numbers(std::string_view key) const;
    Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;
    Result<std::optional<std::vector<std::string>>> strings(std::string_view key) const;

    Error error(std::string_view key, std::string what, std::string expected = {},
                std::string got = {}) const;

  private:
    Fields(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}
    Error wrong_type(std::string_view key, std::string expected, const Json& got) const;
    template <class T, class Convert>
    Result<std::optional<std::vector<T>>> list(std::string_view key, const char* expected,
                                               Convert convert) const;

    const Json* json_;
    std::string where_;
};

// "a string", "an object"... for errors.
std::string_view kind(const Json& json);

}  // namespace bifocal::json
