// printf-style `%` and the plain half of str.format.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/template/methods.h"

namespace bifocal::jinja {
namespace {

struct Spec {
    bool left = false, plus = false, space = false, zero = false, alternate = false;
    int64_t width = 0;
    int64_t precision = -1;
};

int64_t number_at(std::string_view bytes, size_t& at) {
    int64_t number = 0;
    for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at) {
        number = number * 10 + (bytes[at] - '0');
        if (number > 4096) fail("width or precision in a format is too large");
    }
    return number;
}

std::string sign_of(bool negative, const Spec& spec) {
    return negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
}

Text padded(const Text& body, const std::string& sign, const Spec& spec, bool numeric) {
    Text out;
    const auto size = static_cast<int64_t>(count_code_points(body.bytes) + sign.size());
    const std::string fill(static_cast<size_t>(std::max<int64_t>(spec.width - size, 0)),
                           numeric && spec.zero && !spec.left ? '0' : ' ');
    const bool zeros = !fill.empty() && fill[0] == '0';
    if (!spec.left && !zeros) out.append(fill, false);
    out.append(sign, false);
    if (zeros) out.append(fill, false);
    out.append(body);
    if (spec.left) out.append(fill, false);
    return out;
}

Text format_integer(const Value& value, char kind, const Spec& spec) {
    if (value.is(Kind::undefined)) fail(value.get<UndefinedObject>().message);
    int64_t number = 0;
    if (value.is_integral()) {
        number = value.as_integer();
    } else if (value.is(Kind::real) && (kind == 'd' || kind == 'i' || kind == 'u')) {
        if (!(std::abs(value.as_real()) < 9.2e18)) fail("number does not fit 64 bits");
        number = static_cast<int64_t>(value.as_real());
    } else {
        fail(fmt::format("%{} format needs a number, not {}", kind, type_name(value)));
    }
    const uint64_t size =
        number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    Text body;
    body.bytes = kind == 'x'   ? fmt::format("{:x}", size)
                 : kind == 'X' ? fmt::format("{:X}", size)
                 : kind == 'o' ? fmt::format("{:o}", size)
                               : fmt::format("{}", size);
    while (static_cast<int64_t>(body.bytes.size()) < spec.precision) body.bytes.insert(0, 1, '0');
    std::string sign = sign_of(number < 0, spec);
    if (spec.alternate) sign += kind == 'x' ? "0x" : kind == 'X' ? "0X" : kind == 'o' ? "0o" : "";
    return padded(body, sign, spec, true);
}

Text format_real(const Value& value, char kind, const Spec& spec) {
    if (value.is(Kind::undefined)) fail(value.get<UndefinedObject>().message);
    if (!value.is_number())
        fail(fmt::format("%{} format needs a number, not {}", kind, type_name(value)));
    if (spec.alternate) fail("'#' in a float format is not supported");
    const double number = value.as_real();
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    const double size = std::abs(number);
    Text body;
    switch (kind) {
        case 'f':
            body.bytes = fmt::format("{:.{}f}", size, precision);
            break;
        case 'F':
            body.bytes = fmt::format("{:.{}F}", size, precision);
            break;
        case 'e':
            body.bytes = fmt::format("{:.{}e}", size, precision);
            break;
        case 'E':
            body.bytes = fmt::format("{:.{}E}", size, precision);
            break;
        case 'g':
            body.bytes = fmt::format("{:.{}g}", size, std::max(precision, 1));
            break;
        default:
            body.bytes = fmt::format("{:.{}G}", size, std::max(precision, 1));
            break;
    }
    return padded(body, sign_of(std::signbit(number) && !std::isnan(number), spec), spec, true);
}

Text format_text(Text text, const Spec& spec) {
    if (spec.precision >= 0) {
        text = text.slice(0, byte_of_code_point(text.bytes, static_cast<size_t>(spec.precision)));
    }
    text.markup = false;
    return padded(text, "", spec, false);
}

}  // namespace

Text format_percent(Machine& machine, const Text& format, const Value& args) {
    const std::string& bytes = format.bytes;
    const std::vector<Value> single = {args};
    const std::vector<Value>& values = args.is(Kind::tuple) ? args.items() : single;
    size_t used = 0;
    bool by_name = false;
    const auto take = [&]() -> const Value& {
        if (used >= values.size()) fail("not enough arguments for format string");
        return values[used++];
    };
    Text out;
    for (size_t at = 0; at < bytes.size();) {
        machine.step_bytes(256);
        if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
        if (bytes[at] != '%') {
            const size_t next = std::min(bytes.find('%', at), bytes.size());
            out.append(format, at, next);
            at = next;
            continue;
        }
        const size_t begin = at++;
        Spec spec;
        Value named = Value::missing();
        if (at < bytes.size() && bytes[at] == '(') {
            const size_t close = bytes.find(')', at);
            if (close == std::string::npos) fail("incomplete format key");
            if (!args.is(Kind::dict)) fail("format requires a mapping");
            const Value* found =
                find(args.dict(), std::string_view(bytes).substr(at + 1, close - at - 1));
            if (!found) fail("format names a key that the mapping has not");
            named = *found;
            by_name = true;
            at = close + 1;
        }
        for (; at < bytes.size(); ++at) {
            const char c = bytes[at];
            if (c == '-')
                spec.left = true;
            else if (c == '+')
                spec.plus = true;
            else if (c == ' ')
                spec.space = true;
            else if (c == '0')
                spec.zero = true;
            else if (c == '#')
                spec.alternate = true;
            else
                break;
        }
        const auto size = [&] {
            if (at >= bytes.size() || bytes[at] != '*') return number_at(bytes, at);
            ++at;
            const int64_t given = index_argument(take(), "'*' in a format");
            if (given > 4096 || given < -4096) fail("width or precision in a format is too large");
            return given;
        };
        spec.width = size();
        if (spec.width < 0) {
            spec.left = true;
            spec.width = -spec.width;
        }
        if (at < bytes.size() && bytes[at] == '.') {
            ++at;
            spec.precision = std::max<int64_t>(size(), 0);
        }
        while (at < bytes.size() && (bytes[at] == 'l' || bytes[at] == 'h' || bytes[at] == 'L'))
            ++at;
        if (at >= bytes.size()) fail("incomplete format");
        const char kind = bytes[at++];
        if (kind == '%') {
            if (at - begin != 2) fail("'%%' with flags is not supported");
            out.append("%", format.from_user(begin));
            continue;
        }
        const Value value = named.is_missing() ? take() : named;
        switch (kind) {
            case 's':
                out.append(format_text(to_text(machine, value), spec));
                break;
            case 'r':
                out.append(format_text(to_repr(machine, value), spec));
                break;
            case 'd':
            case 'i':
            case 'u':
            case 'x':
            case 'X':
            case 'o':
                out.append(format_integer(value, kind, spec));
                break;
            case 'f':
            case 'F':
            case 'e':
            case 'E':
            case 'g':
            case 'G':
                out.append(format_real(value, kind, spec));
                break;
            default:
                fail(fmt::format("unsupported format character '{}'", kind));
        }
    }
    // Python takes everything with a subscript but tuples and strings for a mapping.
    const bool mapping = by_name || args.is(Kind::dict) || args.is(Kind::list) ||
                         args.is(Kind::range) || args.is(Kind::undefined);
    if (used < values.size() && !mapping)
        fail("not all arguments converted during string formatting");
    return out;
}

Text format_braces(Machine& machine, const Text& format, const Args& args) {
    const std::string& bytes = format.bytes;
    Text out;
    int64_t automatic = 0;
    bool counted = false, numbered = false;
    for (size_t at = 0; at < bytes.size();) {
        machine.step_bytes(256);
        if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
        const char c = bytes[at];
        if (c != '{' && c != '}') {
            const size_t next = std::min(bytes.find_first_of("{}", at), bytes.size());
            out.append(format, at, next);
            at = next;
            continue;
        }
        if (at + 1 < bytes.size() && bytes[at + 1] == c) {
            out.append(format, at, at + 1);
            at += 2;
            continue;
        }
        const size_t close = bytes.find('}', at);
        if (c == '}' || close == std::string::npos) fail("single brace in format string");
        std::string field = bytes.substr(at + 1, close - at - 1);
        at = close + 1;
        if (field.find_first_of(":!.[{") != std::string::npos)
            fail("format() fields with a specification are not supported");
        Value value = Value::missing();
        const bool digits = field.find_first_not_of("0123456789") == std::string::npos;
        if (digits) {
            (field.empty() ? counted : numbered) = true;
            if (counted && numbered) fail("format() mixes automatic and numbered fields");
            if (field.size() > 6) fail("format() field number is too large");
            const int64_t index = field.empty() ? automatic++ : std::stoll(field);
            if (index >= static_cast<int64_t>(args.positional.size()))
                fail("format() needs more arguments");
            value = args.positional[static_cast<size_t>(index)];
        } else {
            for (const auto& one : args.named) {
                if (one.name == field) value = one.value;
            }
            if (value.is_missing()) fail(fmt::format("format() has no argument '{}'", field));
        }
        append_text(machine, out, value);
    }
    return out;
}

}  // namespace bifocal::jinja
