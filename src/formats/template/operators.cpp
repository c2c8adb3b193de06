// Arithmetic, `+`, and calls, with Python's rules for mixed kinds.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "formats/template/machine.h"

namespace bifocal::jinja {
namespace {

[[noreturn]] void bad_operands(std::string_view op, const Value& a, const Value& b) {
    fail(
        fmt::format("unsupported operands of '{}': '{}' and '{}'", op, type_name(a), type_name(b)));
}

[[noreturn]] void overflow() {
    fail("integer result does not fit 64 bits");
}

void check_defined(const Value& a) {
    if (a.is(Kind::undefined)) fail(a.get<UndefinedObject>().message);
}

int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) fail("division by zero");
    if (b == -1) {
        if (a == std::numeric_limits<int64_t>::min()) overflow();
        return -a;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_mod(int64_t a, int64_t b) {
    if (b == 0) fail("modulo by zero");
    if (b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double real_mod(double a, double b) {
    if (b == 0) fail("modulo by zero");
    const double rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0, b);
    return (b < 0) != (rest < 0) ? rest + b : rest;
}

double real_floor_div(double a, double b) {
    if (b == 0) fail("division by zero");
    double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double whole = std::floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value power(const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral() && b.as_integer() >= 0) {
        int64_t result = 1, base = a.as_integer();
        for (int64_t e = b.as_integer(); e > 0;) {
            if ((e & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
            e >>= 1;
            if (e > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
        }
        return Value::integer(result);
    }
    const double x = a.as_real(), y = b.as_real();
    if (x == 0 && y < 0) fail("zero cannot be raised to a negative power");
    if (x < 0 && std::isfinite(y) && y != std::floor(y) && std::isfinite(x))
        fail("power gives a complex number");
    const double result = std::pow(x, y);
    if (std::isinf(result) && std::isfinite(x) && std::isfinite(y))
        fail("numerical result out of range");
    return Value::real(result);
}

Value divide(const Value& a, const Value& b) {
    if (b.as_real() == 0) fail("division by zero");
    if (a.is_integral() && b.is_integral()) {
        return Value::real(static_cast<double>(static_cast<long double>(a.as_integer()) /
                                               static_cast<long double>(b.as_integer())));
    }
    return Value::real(a.as_real() / b.as_real());
}

Value repeat(Machine& m, const Value& what, int64_t times) {
    times = std::max<int64_t>(times, 0);
    const auto count = static_cast<size_t>(times);
    if (what.is_string()) {
        const Text& text = what.text();
        if (!text.bytes.empty() && count > kMaxStringBytes / text.bytes.size())
            fail("string is too long: limit of 16 MiB");
        Text result;
        result.markup = text.markup;
        if (text.bytes.empty()) return m.string(std::move(result));
        for (size_t i = 0; i < count; ++i) {
            if ((i & 4095) == 0) m.step();
            result.append(text);
        }
        return m.string(std::move(result));
    }
    const auto& items = what.items();
    if (!items.empty() && count > kMaxLiveBytes / sizeof(Value) / items.size())
        fail("list is too long");
    std::vector<Value> result;
    if (!items.empty()) {
        for (size_t i = 0; i < count; ++i) result.insert(result.end(), items.begin(), items.end());
    }
    return m.sequence(what.kind(), std::move(result));
}

Value multiply(Machine& m, const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        if (!a.is_integral() || !b.is_integral()) return Value::real(a.as_real() * b.as_real());
        int64_t result = 0;
        if (__builtin_mul_overflow(a.as_integer(), b.as_integer(), &result)) overflow();
        return Value::integer(result);
    }
    const auto repeats = [](const Value& v) { return v.is_string() || v.is_sequence(); };
    if (repeats(a) && b.is_integral()) return repeat(m, a, b.as_integer());
    if (repeats(b) && a.is_integral()) return repeat(m, b, a.as_integer());
    bad_operands("*", a, b);
}

Value numbers(std::string_view op, const Value& a, const Value& b) {
    if (op == "**") return power(a, b);
    if (op == "/") return divide(a, b);
    if (a.is_integral() && b.is_integral()) {
        const int64_t x = a.as_integer(), y = b.as_integer();
        int64_t result = 0;
        if (op == "//") return Value::integer(floor_div(x, y));
        if (op == "%") return Value::integer(floor_mod(x, y));
        if (op == "+" ? __builtin_add_overflow(x, y, &result)
                      : __builtin_sub_overflow(x, y, &result))
            overflow();
        return Value::integer(result);
    }
    const double x = a.as_real(), y = b.as_real();
    return Value::real(op == "//"  ? real_floor_div(x, y)
                       : op == "%" ? real_mod(x, y)
                       : op == "+" ? x + y
                                   : x - y);
}

}  // namespace

Text escape_html(const Text& text) {
    Text out;
    out.markup = true;
    size_t plain = 0;
    for (size_t i = 0; i < text.bytes.size(); ++i) {
        const char c = text.bytes[i];
        const char* entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : nullptr;
        if (!entity) continue;
        out.append(text, plain, i);
        out.append(entity, text.from_user(i));
        plain = i + 1;
    }
    out.append(text, plain, text.bytes.size());
    return out;
}

Value add(Machine& m, const Value& a, const Value& b) {
    if (a.is_string() && b.is_string()) {
        const Text &x = a.text(), &y = b.text();
        Text sum;
        if (x.bytes.size() + y.bytes.size() > kMaxStringBytes)
            fail("string is too long: limit of 16 MiB");
        const bool markup = x.markup || y.markup;
        sum.append(markup && !x.markup ? escape_html(x) : x);
        sum.append(markup && !y.markup ? escape_html(y) : y);
        sum.markup = markup;
        return m.string(std::move(sum));
    }
    if (a.is_sequence() && a.kind() == b.kind()) {
        std::vector<Value> items = a.items();
        items.insert(items.end(), b.items().begin(), b.items().end());
        return m.sequence(a.kind(), std::move(items));
    }
    if (a.is_number() && b.is_number()) return numbers("+", a, b);
    check_defined(a);
    check_defined(b);
    bad_operands("+", a, b);
}

Value arithmetic(Machine& m, std::string_view op, const Value& a, const Value& b) {
    if (op == "+") return add(m, a, b);
    if (op == "%" && a.is_string()) {
        if (a.text().markup) fail("'%' on a string marked safe is not supported");
        return m.string(format_percent(m, a.text(), b));
    }
    check_defined(a);
    check_defined(b);
    if (op == "*") return multiply(m, a, b);
    if (!a.is_number() || !b.is_number()) bad_operands(op, a, b);
    return numbers(op, a, b);
}

Value negate(Machine&, const Value& a) {
    check_defined(a);
    if (a.is(Kind::real)) return Value::real(-a.as_real());
    if (!a.is_integral()) fail(fmt::format("bad operand of unary '-': '{}'", type_name(a)));
    if (a.as_integer() == std::numeric_limits<int64_t>::min()) overflow();
    return Value::integer(-a.as_integer());
}

Value call(Machine& m, const Value& callee, Args& args) {
    const Nested nested(m);
    switch (callee.kind()) {
        case Kind::function:
            return callee.get<FunctionObject>().call(m, args);
        case Kind::method: {
            const auto& method = callee.get<MethodObject>();
            return method.call(m, method.self, args);
        }
        case Kind::macro:
        case Kind::loop:
            return m.call_template_code(callee, args);
        case Kind::joiner: {
            bind(args, "joiner", {});
            auto& joiner = callee.get<JoinerObject>();
            return std::exchange(joiner.used, true) ? joiner.separator : m.string("");
        }
        case Kind::undefined:
            fail(callee.get<UndefinedObject>().message);
        default:
            fail(fmt::format("'{}' object is not callable", type_name(callee)));
    }
}

std::vector<Value> bind(const Args& args, std::string_view function,
                        std::initializer_list<std::string_view> parameters, size_t required) {
    std::vector<Value> bound(parameters.size(), Value::missing());
    if (args.positional.size() > parameters.size()) {
        fail(fmt::format("{}() takes at most {} arguments, got {}", function, parameters.size(),
                         args.positional.size()));
    }
    std::copy(args.positional.begin(), args.positional.end(), bound.begin());
    for (const auto& [name, value, user] : args.named) {
        const auto at = std::find(parameters.begin(), parameters.end(), name);
        if (at == parameters.end())
            fail(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
        Value& slot = bound[static_cast<size_t>(at - parameters.begin())];
        if (!slot.is_missing()) fail(fmt::format("{}() got '{}' twice", function, name));
        slot = value;
    }
    for (size_t i = 0; i < required; ++i) {
        if (bound[i].is_missing())
            fail(fmt::format("{}() needs the argument '{}'", function, *(parameters.begin() + i)));
    }
    return bound;
}

int64_t index_argument(const Value& value, std::string_view what) {
    check_defined(value);
    if (!value.is_integral())
        fail(fmt::format("{} must be an integer, not '{}'", what, type_name(value)));
    return value.as_integer();
}

}  // namespace bifocal::jinja
