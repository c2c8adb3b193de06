// Tests: `value is NAME`.
#include <fmt/format.h>

#include "formats/template/machine.h"
#include "formats/template/unicode_case.h"

namespace bifocal::jinja {
namespace {

template <Kind kind>
bool is_kind(Machine&, const Value& v, Args& args) {
    bind(args, "test", {});
    return v.is(kind);
}

const Value& operand(const Args& args) {
    if (args.positional.size() != 1 || !args.named.empty()) fail("this test takes one argument");
    return args.positional[0];
}

bool defined(Machine&, const Value& v, Args& args) {
    bind(args, "defined", {});
    return !v.is(Kind::undefined);
}
bool boolean_is(const Value& v, bool b) {
    return v.is(Kind::boolean) && v.as_boolean() == b;
}
bool is_true(Machine&, const Value& v, Args& args) {
    bind(args, "true", {});
    return boolean_is(v, true);
}
bool is_false(Machine&, const Value& v, Args& args) {
    bind(args, "false", {});
    return boolean_is(v, false);
}
bool number(Machine&, const Value& v, Args& args) {
    bind(args, "number", {});
    return v.is_number();
}
bool sequence(Machine&, const Value& v, Args& args) {
    bind(args, "sequence", {});
    return v.is_string() || v.is_sequence() || v.is(Kind::dict) || v.is(Kind::range) ||
           v.is(Kind::undefined);
}
bool iterable(Machine&, const Value& v, Args& args) {
    bind(args, "iterable", {});
    return is_iterable(v);
}
bool callable(Machine&, const Value& v, Args& args) {
    bind(args, "callable", {});
    return is_callable(v);
}
bool escaped(Machine&, const Value& v, Args& args) {
    bind(args, "escaped", {});
    return v.is_string() && v.text().markup;
}

bool leaves_rest(Machine& m, const Value& v, int64_t by, int64_t rest) {
    return equal(m, arithmetic(m, "%", v, Value::integer(by)), Value::integer(rest));
}
bool odd(Machine& m, const Value& v, Args& args) {
    bind(args, "odd", {});
    return leaves_rest(m, v, 2, 1);
}
bool even(Machine& m, const Value& v, Args& args) {
    bind(args, "even", {});
    return leaves_rest(m, v, 2, 0);
}
bool divisible_by(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "divisibleby", {"num"}, 1);
    return equal(m, arithmetic(m, "%", v, bound[0]), Value::integer(0));
}

bool lower(Machine& m, const Value& v, Args& args) {
    bind(args, "lower", {});
    return is_lower(to_text(m, v).bytes);
}
bool upper(Machine& m, const Value& v, Args& args) {
    bind(args, "upper", {});
    return is_upper(to_text(m, v).bytes);
}

bool same_as(Machine&, const Value& v, Args& args) {
    const auto bound = bind(args, "sameas", {"other"}, 1);
    const Value& other = bound[0];
    if (v.kind() != other.kind()) return false;
    switch (v.kind()) {
        case Kind::none:
            return true;
        case Kind::boolean:
            return v.as_boolean() == other.as_boolean();
        // Whether equal numbers or strings are one object is Python's secret.
        case Kind::integer:
        case Kind::real:
        case Kind::string:
            fail("'sameas' of numbers or strings is not supported");
        default:
            return v.identity() == other.identity();
    }
}

bool in(Machine& m, const Value& v, Args& args) {
    return contains(m, bind(args, "in", {"seq"}, 1)[0], v);
}
bool filter(Machine& m, const Value& v, Args& args) {
    bind(args, "filter", {});
    if (!is_hashable(v)) fail("name of a filter must be a string");
    return v.is_string() && find_filter(to_text(m, v).bytes) != nullptr;
}
bool test(Machine& m, const Value& v, Args& args) {
    bind(args, "test", {});
    if (!is_hashable(v)) fail("name of a test must be a string");
    return v.is_string() && find_test(to_text(m, v).bytes) != nullptr;
}

bool eq(Machine& m, const Value& v, Args& args) {
    return equal(m, v, operand(args));
}
bool ne(Machine& m, const Value& v, Args& args) {
    return !equal(m, v, operand(args));
}
bool lt(Machine& m, const Value& v, Args& args) {
    return less(m, v, operand(args));
}
bool gt(Machine& m, const Value& v, Args& args) {
    return less(m, operand(args), v);
}
bool le(Machine& m, const Value& v, Args& args) {
    return less(m, v, operand(args)) || equal(m, v, operand(args));
}
bool ge(Machine& m, const Value& v, Args& args) {
    return less(m, operand(args), v) || equal(m, v, operand(args));
}

bool undefined(Machine& m, const Value& v, Args& args) {
    return !defined(m, v, args);
}

}  // namespace

Test find_test(std::string_view name) {
    static const std::unordered_map<std::string_view, Test> kTests = {
        {"odd", odd},
        {"even", even},
        {"divisibleby", divisible_by},
        {"defined", defined},
        {"undefined", undefined},
        {"filter", filter},
        {"test", test},
        {"none", is_kind<Kind::none>},
        {"boolean", is_kind<Kind::boolean>},
        {"false", is_false},
        {"true", is_true},
        {"integer", is_kind<Kind::integer>},
        {"float", is_kind<Kind::real>},
        {"lower", lower},
        {"upper", upper},
        {"string", is_kind<Kind::string>},
        {"mapping", is_kind<Kind::dict>},
        {"number", number},
        {"sequence", sequence},
        {"iterable", iterable},
        {"callable", callable},
        {"sameas", same_as},
        {"escaped", escaped},
        {"in", in},
        {"==", eq},
        {"eq", eq},
        {"equalto", eq},
        {"!=", ne},
        {"ne", ne},
        {">", gt},
        {"gt", gt},
        {"greaterthan", gt},
        {">=", ge},
        {"ge", ge},
        {"<", lt},
        {"lt", lt},
        {"lessthan", lt},
        {"<=", le},
        {"le", le},
    };
    const auto found = kTests.find(name);
    return found == kTests.end() ? nullptr : found->second;
}

}  // namespace bifocal::jinja
