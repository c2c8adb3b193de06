// Filters of one value: `value | NAME`. Those over sequences are in sequence_filters.cpp.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "formats/template/filters.h"
#include "formats/template/unicode_case.h"

namespace bifocal::jinja {
namespace {

[[noreturn]] void wrong_type(std::string_view filter, const Value& value) {
    if (value.is(Kind::undefined)) fail(value.get<UndefinedObject>().message);
    fail(fmt::format("filter '{}' cannot take a '{}'", filter, type_name(value)));
}

Value abs(Machine& m, const Value& v, Args& args) {
    bind(args, "abs", {});
    if (v.is(Kind::real)) return Value::real(std::abs(v.as_real()));
    if (!v.is_integral()) wrong_type("abs", v);
    return v.as_integer() < 0 ? negate(m, v) : Value::integer(v.as_integer());
}

Value attr(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "attr", {"name"}, 1);
    if (!bound[0].is_string()) fail("filter 'attr' needs a name");
    // As a dot, but without falling back to the items.
    if (v.is(Kind::dict)) {
        const auto empty = m.dict(m.new_dict());
        return get_attribute(m, find_method(Kind::dict, bound[0].text().bytes) ? v : empty,
                             bound[0].text().bytes);
    }
    return get_attribute(m, v, bound[0].text().bytes);
}

// soft_str: what is no string becomes one; one marked safe stays so.
Text soft(Machine& m, const Value& v) {
    return v.is_string() ? v.text() : to_text(m, v);
}

Value upper(Machine& m, const Value& v, Args& args) {
    bind(args, "upper", {});
    return m.string(to_upper(soft(m, v)));
}
Value lower(Machine& m, const Value& v, Args& args) {
    bind(args, "lower", {});
    return m.string(to_lower(soft(m, v)));
}
Value capitalize(Machine& m, const Value& v, Args& args) {
    bind(args, "capitalize", {});
    return m.string(to_capitalized(soft(m, v)));
}

Value title(Machine& m, const Value& v, Args& args) {
    bind(args, "title", {});
    const Text text = soft(m, v);
    const auto separates = [](char32_t c) {
        return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    };
    // Words and the rows of separators between them, each with its first letter in upper case.
    Text out;
    for (size_t at = 0; at < text.bytes.size();) {
        const size_t begin = at;
        const bool separator = separates(next_code_point(text.bytes, at));
        const size_t second = at;
        while (at < text.bytes.size()) {
            size_t next = at;
            if (separates(next_code_point(text.bytes, next)) != separator) break;
            at = next;
        }
        out.append(to_upper(text.slice(begin, second)));
        out.append(to_lower(text.slice(second, at)));
    }
    return m.string(std::move(out));
}

Value center(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "center", {"width"});
    Args width{{bound[0].is_missing() ? Value::integer(80) : bound[0]}, {}};
    return find_method(Kind::string, "center")(m, m.string(soft(m, v)), width);
}

Value trim(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "trim", {"chars"});
    Args chars;
    if (!bound[0].is_missing()) chars.positional.push_back(bound[0]);
    return find_method(Kind::string, "strip")(m, m.string(soft(m, v)), chars);
}

Value replace(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "replace", {"old", "new", "count"}, 2);
    int64_t count = -1;
    if (!bound[2].is_missing() && !bound[2].is(Kind::none))
        count = index_argument(bound[2], "count");
    Text text = to_text(m, v);
    text.markup = false;
    return m.string(replace_text(m, text, to_text(m, bound[0]), to_text(m, bound[1]), count));
}

Value default_value(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "default", {"default_value", "boolean"});
    const bool also_false = !bound[1].is_missing() && truthy(bound[1]);
    if (!v.is(Kind::undefined) && !(also_false && !truthy(v))) return v;
    return bound[0].is_missing() ? m.string("") : bound[0];
}

Value escape(Machine& m, const Value& v, Args& args) {
    bind(args, "escape", {});
    if (v.is_string() && v.text().markup) return v;
    return m.string(escape_html(to_text(m, v)));
}

Value force_escape(Machine& m, const Value& v, Args& args) {
    bind(args, "forceescape", {});
    return m.string(escape_html(to_text(m, v)));
}

Value safe(Machine& m, const Value& v, Args& args) {
    bind(args, "safe", {});
    Text text = to_text(m, v);
    text.markup = true;
    return m.string(std::move(text));
}

Value string(Machine& m, const Value& v, Args& args) {
    bind(args, "string", {});
    return v.is_string() ? v : m.string(to_text(m, v));
}

Value format(Machine& m, const Value& v, Args& args) {
    if (!args.positional.empty() && !args.named.empty())
        fail("filter 'format' takes positional or keyword arguments, not both");
    const Text text = soft(m, v);
    if (text.markup) fail("filter 'format' on a string marked safe is not supported");
    if (args.named.empty()) return m.string(format_percent(m, text, m.tuple(args.positional)));
    auto dict = m.new_dict();
    for (const auto& [name, value, user] : args.named)
        insert(m, *dict, m.string(name, user), value);
    return m.string(format_percent(m, text, m.dict(std::move(dict))));
}

Value indent(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "indent", {"width", "first", "blank"});
    if (!v.is_string()) wrong_type("indent", v);
    Text indention;
    if (bound[0].is_string()) {
        indention = bound[0].text();
    } else {
        const int64_t width = bound[0].is_missing() ? 4 : index_argument(bound[0], "width");
        if (width > 4096) fail("width of filter 'indent' is too large");
        indention.bytes.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    const bool first = !bound[1].is_missing() && truthy(bound[1]);
    const bool blank = !bound[2].is_missing() && truthy(bound[2]);
    Text source = v.text();
    source.append("\n", false);
    Text out;
    if (first) out.append(indention);
    const std::vector<Text> lines = split_lines(source, false);
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) {
            out.append("\n", false);
            if (blank || !lines[i].bytes.empty()) out.append(indention);
        }
        out.append(lines[i]);
        if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    }
    out.markup = v.text().markup;
    return m.string(std::move(out));
}

Value truncate(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "truncate", {"length", "killwords", "end", "leeway"});
    if (!v.is_string()) wrong_type("truncate", v);
    const int64_t length = bound[0].is_missing() ? 255 : index_argument(bound[0], "length");
    const bool kill = !bound[1].is_missing() && truthy(bound[1]);
    const Value end = bound[2].is_missing() ? m.string("...") : bound[2];
    const bool default_leeway = bound[3].is_missing() || bound[3].is(Kind::none);
    const int64_t leeway = default_leeway ? 5 : index_argument(bound[3], "leeway");
    if (!end.is_string()) wrong_type("truncate", end);
    const int64_t tail = *length_of(m, end);
    if (length < tail || leeway < 0)
        fail("filter 'truncate' got a length or leeway that is too small");
    if (leeway > kMaxRangeBound || length > kMaxRangeBound || *length_of(m, v) <= length + leeway)
        return v;
    const Text& text = v.text();
    size_t cut = byte_of_code_point(text.bytes, static_cast<size_t>(length - tail));
    if (!kill) {
        const size_t space = std::string_view(text.bytes).substr(0, cut).rfind(' ');
        if (space != std::string_view::npos) cut = space;
    }
    Text out = text.slice(0, cut);
    out.append(end.text());
    return m.string(std::move(out));
}

Value word_count(Machine& m, const Value& v, Args& args) {
    bind(args, "wordcount", {});
    return Value::integer(count_words(soft(m, v).bytes));
}

Value to_int(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "int", {"default", "base"});
    const Value otherwise = bound[0].is_missing() ? Value::integer(0) : bound[0];
    int64_t base = bound[1].is_missing() ? 10 : index_argument(bound[1], "base");
    if (v.is(Kind::undefined)) wrong_type("int", v);
    double real = 0;
    if (v.is_integral()) return Value::integer(v.as_integer());
    if (v.is_string()) {
        m.step_bytes(v.text().bytes.size() * 64);
        if (const auto whole = parse_int(v.text().bytes, base)) return Value::integer(*whole);
        const auto parsed = parse_real(v.text().bytes);
        if (!parsed || !std::isfinite(*parsed)) return otherwise;
        real = *parsed;
    } else if (v.is(Kind::real)) {
        real = v.as_real();
        if (std::isinf(real)) fail("infinity has no integer value");
        if (std::isnan(real)) return otherwise;
    } else {
        return otherwise;
    }
    if (std::abs(real) >= 9223372036854775808.0) fail("integer result does not fit 64 bits");
    return Value::integer(static_cast<int64_t>(real));
}

Value to_real(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "float", {"default"});
    if (v.is(Kind::undefined)) wrong_type("float", v);
    if (v.is_number()) return Value::real(v.as_real());
    if (v.is_string()) {
        m.step_bytes(v.text().bytes.size() * 64);
        if (const auto parsed = parse_real(v.text().bytes)) return Value::real(*parsed);
    }
    return bound[0].is_missing() ? Value::real(0.0) : bound[0];
}

// Python's round(): the exact decimal value, ties to even.
double round_real(double value, int64_t digits) {
    if (!std::isfinite(value) || digits > 400) return value;
    if (digits < -400) return std::copysign(0.0, value);
    if (digits >= 0) {
        const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
        return std::strtod(text.c_str(), nullptr);
    }
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    if (!std::isfinite(scale)) return std::copysign(0.0, value);
    const double scaled = value / scale;
    double rounded = std::round(scaled);
    if (std::abs(scaled - rounded) == 0.5) rounded = 2.0 * std::round(scaled / 2.0);
    return rounded * scale;
}

Value round_int(int64_t value, int64_t digits) {
    if (digits >= 0) return Value::integer(value);
    if (digits < -18) return Value::integer(0);
    int64_t scale = 1;
    for (int64_t i = 0; i < -digits; ++i) scale *= 10;
    int64_t rest = value % scale;
    int64_t base = value - rest;
    if (rest < 0) {
        if (__builtin_sub_overflow(base, scale, &base)) fail("integer result does not fit 64 bits");
        rest += scale;
    }
    const int64_t half = scale / 2;
    const bool up = rest > half || (rest == half && (base / scale) % 2 != 0);
    if (up && __builtin_add_overflow(base, scale, &base))
        fail("integer result does not fit 64 bits");
    return Value::integer(base);
}

Value round(Machine&, const Value& v, Args& args) {
    const auto bound = bind(args, "round", {"precision", "method"});
    const int64_t digits = bound[0].is_missing() ? 0 : index_argument(bound[0], "precision");
    const std::string method = bound[1].is_missing()  ? "common"
                               : bound[1].is_string() ? bound[1].text().bytes
                                                      : "";
    if (method != "common" && method != "ceil" && method != "floor")
        fail("method of filter 'round' must be common, ceil or floor");
    if (!v.is_number()) wrong_type("round", v);
    if (method == "common") {
        if (v.is_integral()) return round_int(v.as_integer(), digits);
        const double result = round_real(v.as_real(), digits);
        if (std::isinf(result) && std::isfinite(v.as_real())) fail("rounded value is too large");
        return Value::real(result);
    }
    const double scale = std::pow(10.0, static_cast<double>(digits));
    const double scaled = v.as_real() * scale;
    if (!std::isfinite(scaled) || !std::isfinite(scale) || scale == 0)
        fail("value is too large to be rounded");
    return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value to_json_filter(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ascii = !bound[0].is_missing() && truthy(bound[0]);
    style.sort_keys = !bound[3].is_missing() && truthy(bound[3]);
    const Value& indent = bound[1];
    if (indent.is_string()) {
        style.indent = indent.text();
    } else if (!indent.is_missing() && !indent.is(Kind::none)) {
        const int64_t width = index_argument(indent, "indent");
        if (width > 4096) fail("indent of filter 'tojson' is too large");
        style.indent.emplace();
        style.indent->bytes.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item_separator.bytes = style.indent ? "," : ", ";
    style.key_separator.bytes = ": ";
    if (!bound[2].is_missing() && !bound[2].is(Kind::none)) {
        const auto both = to_vector(m, bound[2]);
        if (both.size() != 2 || !both[0].is_string() || !both[1].is_string())
            fail("separators of filter 'tojson' must be two strings");
        style.item_separator = both[0].text();
        style.key_separator = both[1].text();
    }
    return m.string(to_json(m, v, style));
}

}  // namespace

const std::unordered_map<std::string_view, Filter>& value_filters() {
    static const std::unordered_map<std::string_view, Filter> kFilters = {
        {"abs", abs},
        {"attr", attr},
        {"capitalize", capitalize},
        {"center", center},
        {"d", default_value},
        {"default", default_value},
        {"e", escape},
        {"escape", escape},
        {"float", to_real},
        {"forceescape", force_escape},
        {"format", format},
        {"indent", indent},
        {"int", to_int},
        {"lower", lower},
        {"replace", replace},
        {"round", round},
        {"safe", safe},
        {"string", string},
        {"title", title},
        {"tojson", to_json_filter},
        {"trim", trim},
        {"truncate", truncate},
        {"upper", upper},
        {"wordcount", word_count},
    };
    return kFilters;
}

Filter find_filter(std::string_view name) {
    for (const auto* table : {&value_filters(), &sequence_filters()}) {
        if (const auto found = table->find(name); found != table->end()) return found->second;
    }
    return nullptr;
}

}  // namespace bifocal::jinja
