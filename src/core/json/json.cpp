#include "core/json/json.h"

#include <fmt/format.h>

#include <unordered_set>

#include "core/mapped_file.h"

namespace bifocal::json {
namespace {

// Takes the parser's events and builds the value, so that depth and repeated keys are seen as they
// come. Returning false stops the parser.
template <class J>
class Builder {
  public:
    Builder(const std::string& where, const Limits& limits) : where_(where), limits_(limits) {}

    using number_integer_t = typename J::number_integer_t;
    using number_unsigned_t = typename J::number_unsigned_t;
    using number_float_t = typename J::number_float_t;
    using string_t = typename J::string_t;
    using binary_t = typename J::binary_t;

    bool null() { return add(nullptr); }
    bool boolean(bool value) { return add(value); }
    bool number_integer(number_integer_t value) { return add(value); }
    bool number_unsigned(number_unsigned_t value) { return add(value); }
    bool number_float(number_float_t value, const string_t&) { return add(value); }
    bool string(string_t& value) { return add(std::move(value)); }
    bool binary(binary_t&) { return false; }  // not in JSON text

    bool start_object(size_t) { return open(J::object()); }
    bool key(string_t& name) {
        if (!open_.back().keys.insert(name).second) {
            error_ = Error{.what = "a key occurs twice",
                           .where = where_ + path(),
                           .got = fmt::format("'{}'", name)};
            return false;
        }
        open_.back().key = std::move(name);
        return true;
    }
    bool end_object() { return close(); }
    bool start_array(size_t) { return open(J::array()); }
    bool end_array() { return close(); }

    template <class Exception>
    bool parse_error(size_t position, const std::string&, const Exception& exception) {
        // "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while
        // ..."
        std::string reason = exception.what();
        if (const size_t at = reason.find("] "); at != std::string::npos) reason.erase(0, at + 2);
        error_ = Error{.what = "not valid JSON: " + reason,
                       .where = fmt::format("{}, offset {}", where_, position)};
        return false;
    }

    Result<J> finish(bool parsed) {
        if (!parsed) return std::move(error_);
        return std::move(root_);
    }

  private:
    struct Level {
        J value;
        std::string key;  // the field that is being read, in an object
        std::unordered_set<std::string> keys;
    };

    std::string path() const {
        std::string out;
        for (const Level& level : open_) {
            if (&level == &open_.back()) break;
            out +=
                level.value.is_object() ? "." + level.key : fmt::format("[{}]", level.value.size());
        }
        return out.empty() ? out : ", " + out.substr(out[0] == '.' ? 1 : 0);
    }

    bool open(J value) {
        if (std::ssize(open_) >= limits_.depth) {
            error_ = Error{.what = "JSON nested too deeply",
                           .where = where_,
                           .expected = fmt::format("at most {} levels", limits_.depth)};
            return false;
        }
        open_.push_back({std::move(value), {}, {}});
        return true;
    }
    bool close() {
        J value = std::move(open_.back().value);
        open_.pop_back();
        return add(std::move(value));
    }
    template <class T>
    bool add(T&& value) {
        if (open_.empty()) {
            root_ = std::forward<T>(value);
            return true;
        }
        Level& level = open_.back();
        if (level.value.is_array()) {
            level.value.push_back(std::forward<T>(value));
        } else if constexpr (std::is_same_v<J, OrderedJson>) {
            // Past the container's own search for the key, which is linear.
            auto& object = level.value.template get_ref<typename J::object_t&>();
            static_cast<typename J::object_t::Container&>(object).emplace_back(
                std::move(level.key), J(std::forward<T>(value)));
        } else {
            level.value.emplace(std::move(level.key), std::forward<T>(value));
        }
        return true;
    }

    const std::string& where_;
    const Limits& limits_;
    std::vector<Level> open_;
    J root_;
    Error error_{.what = "not valid JSON"};
};

template <class J>
Result<J> parse_as(std::string_view text, const std::string& where, const Limits& limits) {
    if (text.size() > limits.bytes) {
        return Error{.what = "the JSON text is too long",
                     .where = where,
                     .expected = fmt::format("at most {} bytes", limits.bytes),
                     .got = std::to_string(text.size())};
    }
    Builder<J> builder(where, limits);
    const bool parsed = J::sax_parse(text.begin(), text.end(), &builder);
    return builder.finish(parsed);
}

}  // namespace

Result<Json> parse(std::string_view text, const std::string& where, const Limits& limits) {
    return parse_as<Json>(text, where, limits);
}

Result<OrderedJson> parse_ordered(std::string_view text, const std::string& where,
                                  const Limits& limits) {
    return parse_as<OrderedJson>(text, where, limits);
}

Result<Json> read_file(const std::string& path, const Limits& limits) {
    BIFOCAL_TRY(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, limits);
}

std::string_view kind(const Json& json) {
    switch (json.type()) {
        case Json::value_t::null:
            return "null";
        case Json::value_t::object:
            return "an object";
        case Json::value_t::array:
            return "an array";
        case Json::value_t::string:
            return "a string";
        case Json::value_t::boolean:
            return "a boolean";
        case Json::value_t::number_float:
            return "a fraction";
        default:
            return "an integer";
    }
}

Result<Fields> Fields::of(const Json& json, std::string where) {
    if (!json.is_object()) {
        return Error{.what = "the value has the wrong type",
                     .where = std::move(where),
                     .expected = "an object",
                     .got = std::string(kind(json))};
    }
    return Fields(json, std::move(where));
}

const Json* Fields::find(std::string_view key) const {
    const auto at = json_->find(key);
    return at == json_->end() || at->is_null() ? nullptr : &*at;
}

Error Fields::error(std::string_view key, std::string what, std::string expected,
                    std::string got) const {
    return {.what = std::move(what),
            .where = fmt::format("{}, key '{}'", where_, key),
            .expected = std::move(expected),
            .got = std::move(got)};
}

Error Fields::wrong_type(std::string_view key, std::string expected, const Json& got) const {
    return error(key, "the value has the wrong type", std::move(expected), std::string(kind(got)));
}

namespace {

std::optional<int64_t> to_integer(const Json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return std::nullopt;
    }
    return value.get<int64_t>();
}

std::optional<double> to_number(const Json& value) {
    if (!value.is_number()) return std::nullopt;
    return value.get<double>();
}

std::optional<std::string> to_string(const Json& value) {
    if (!value.is_string()) return std::nullopt;
    return value.get<std::string>();
}

}  // namespace

Result<std::optional<int64_t>> Fields::integer(std::string_view key, int64_t min,
                                               int64_t max) const {
    const Json* value = find(key);
    if (!value) return std::optional<int64_t>();
    if (!value->is_number_integer()) return wrong_type(key, "an integer", *value);
    const auto number = to_integer(*value);
    if (!number || *number < min || *number > max) {
        return error(key, "the value is out of range", fmt::format("{} to {}", min, max),
                     to_text(*value));
    }
    return number;
}

Result<std::optional<double>> Fields::number(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::optional<double>();
    if (!value->is_number()) return wrong_type(key, "a number", *value);
    return to_number(*value);
}

Result<std::optional<bool>> Fields::boolean(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::optional<bool>();
    if (!value->is_boolean()) return wrong_type(key, "true or false", *value);
    return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> Fields::string(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::optional<std::string>();
    if (!value->is_string()) return wrong_type(key, "a string", *value);
    return to_string(*value);
}

Result<std::optional<Fields>> Fields::object(std::string_view key) const {
    const Json* value = find(key);
    if (!value) return std::optional<Fields>();
    BIFOCAL_TRY(Fields fields, of(*value, fmt::format("{}, key '{}'", where_, key)));
    return std::optional<Fields>(std::move(fields));
}

template <class T, class Convert>
Result<std::optional<std::vector<T>>> Fields::list(std::string_view key, const char* expected,
                                                   Convert convert) const {
    const Json* value = find(key);
    if (!value) return std::optional<std::vector<T>>();
    if (!value->is_array()) return wrong_type(key, expected, *value);
    std::vector<T> out;
    for (const Json& element : *value) {
        auto converted = convert(element);
        if (!converted) return wrong_type(key, expected, element);
        out.push_back(std::move(*converted));
    }
    return std::optional(std::move(out));
}

Result<std::optional<std::vector<double>>> Fields::numbers(std::string_view key) const {
    return list<double>(key, "an array of numbers", to_number);
}
Result<std::optional<std::vector<int64_t>>> Fields::integers(std::string_view key) const {
    return list<int64_t>(key, "an array of integers", to_integer);
}
Result<std::optional<std::vector<std::string>>> Fields::strings(std::string_view key) const {
    return list<std::string>(key, "an array of strings", to_string);
}

}  // namespace bifocal::json
