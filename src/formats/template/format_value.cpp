// How values become text: Python's str() and repr(), and json.dumps.
#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "formats/template/machine.h"
#include "formats/template/value.h"
#include "formats/unicode/utf8.h"

namespace bifocal::jinja {
namespace {

void check_size(Machine& machine, const Text& out) {
    machine.step_bytes(512);
    if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
}

// Python's str.isprintable, which decides what repr() escapes.
bool is_printable(char32_t code) {
    if (code < 0x7f) return code >= 0x20;
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS:
            return false;
        default:
            return true;
    }
}

std::string quoted(std::string_view bytes) {
    const bool has_single = bytes.find('\'') != std::string_view::npos;
    const bool has_double = bytes.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    std::string out(1, quote);
    for (size_t at = 0; at < bytes.size();) {
        const char32_t code = next_code_point(bytes, at);
        if (code == static_cast<char32_t>(quote) || code == '\\') {
            out += '\\';
            out += static_cast<char>(code);
        } else if (code == '\n') {
            out += "\\n";
        } else if (code == '\r') {
            out += "\\r";
        } else if (code == '\t') {
            out += "\\t";
        } else if (is_printable(code)) {
            unicode::append(out, code);
        } else {
            const auto number = static_cast<uint32_t>(code);
            out += number < 0x100     ? fmt::format("\\x{:02x}", number)
                   : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                      : fmt::format("\\U{:08x}", number);
        }
    }
    out += quote;
    return out;
}

class Repr {
  public:
    explicit Repr(Machine& machine) : machine_(machine) {}

    void write(const Value& value) {
        check_size(machine_, out);
        switch (value.kind()) {
            case Kind::string:
                return write_string(value.text());
            case Kind::list:
                return write_items("[", value, "]");
            case Kind::tuple:
                return write_items("(", value, value.items().size() == 1 ? ",)" : ")");
            case Kind::dict:
                return write_dict(value.dict());
            case Kind::view:
                return write_view(value.get<ViewObject>());
            case Kind::name_space:
                return write_namespace(value.get<NamespaceObject>());
            case Kind::undefined:
                return plain("Undefined");
            default:
                out.append(to_text(machine_, value));
        }
    }

    Text out;
    bool user = false;

  private:
    void plain(std::string_view text) { out.append(text, false); }

    void write_string(const Text& text) {
        user |= text.any_user();
        const std::string body = quoted(text.bytes);
        plain(text.markup ? "Markup(" + body + ")" : body);
    }

    void write_items(std::string_view open, const Value& value, std::string_view close) {
        const Nested nested(machine_);
        plain(open);
        for (size_t i = 0; i < value.items().size(); ++i) {
            if (i) plain(", ");
            write(value.items()[i]);
        }
        plain(close);
    }

    void write_dict(const DictObject& dict) {
        const Nested nested(machine_);
        plain("{");
        for (size_t i = 0; i < dict.entries.size(); ++i) {
            if (i) plain(", ");
            write(dict.entries[i].first);
            plain(": ");
            write(dict.entries[i].second);
        }
        plain("}");
    }

    void write_view(const ViewObject& view) {
        const Nested nested(machine_);
        const auto& entries = view.dict.dict().entries;
        plain(view.part == ViewObject::keys     ? "dict_keys(["
              : view.part == ViewObject::values ? "dict_values(["
                                                : "dict_items([");
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i) plain(", ");
            if (view.part == ViewObject::items) plain("(");
            if (view.part != ViewObject::values) write(entries[i].first);
            if (view.part == ViewObject::items) plain(", ");
            if (view.part != ViewObject::keys) write(entries[i].second);
            if (view.part == ViewObject::items) plain(")");
        }
        plain("])");
    }

    void write_namespace(const NamespaceObject& space) {
        const Nested nested(machine_);
        user = true;  // its names may have come from anywhere
        plain("<Namespace {");
        for (size_t i = 0; i < space.attributes.size(); ++i) {
            if (i) plain(", ");
            plain(quoted(space.attributes[i].first));
            plain(": ");
            write(space.attributes[i].second);
        }
        plain("}>");
    }

    Machine& machine_;
};

class Json {
  public:
    Json(Machine& machine, const JsonStyle& style) : machine_(machine), style_(style) {}

    void write(const Value& value) {
        check_size(machine_, out);
        switch (value.kind()) {
            case Kind::none:
                return plain("null");
            case Kind::boolean:
                return plain(value.as_boolean() ? "true" : "false");
            case Kind::integer:
                return plain(std::to_string(value.as_integer()));
            case Kind::real:
                return plain(number(value.as_real()));
            case Kind::string:
                return write_string(value.text());
            case Kind::list:
            case Kind::tuple:
                return write_items(value);
            case Kind::dict:
                return write_dict(value.dict());
            default:
                fail(std::string("object of type ") + type_name(value) +
                     " is not JSON serializable");
        }
    }

    Text out;
    bool user = false;

  private:
    void plain(std::string_view text) { out.append(text, false); }

    static std::string number(double d) {
        if (std::isnan(d)) return "NaN";
        if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
        return real_repr(d);
    }

    void newline() {
        if (!style_.indent) return;
        plain("\n");
        for (int i = 0; i < level_; ++i) out.append(*style_.indent);
    }

    void write_string(const Text& text) {
        user |= text.any_user();
        std::string body = "\"";
        for (size_t at = 0; at < text.bytes.size();) {
            const char32_t code = next_code_point(text.bytes, at);
            const auto unit = static_cast<uint32_t>(code);
            switch (code) {
                case '"':
                    body += "\\\"";
                    break;
                case '\\':
                    body += "\\\\";
                    break;
                case '\n':
                    body += "\\n";
                    break;
                case '\r':
                    body += "\\r";
                    break;
                case '\t':
                    body += "\\t";
                    break;
                case '\b':
                    body += "\\b";
                    break;
                case '\f':
                    body += "\\f";
                    break;
                default:
                    if (code < 0x20 || (style_.ascii && code > 0x7e && code < 0x10000)) {
                        body += fmt::format("\\u{:04x}", unit);
                    } else if (style_.ascii && code >= 0x10000) {
                        body += fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (unit >> 10),
                                            0xdc00 + (unit & 0x3ff));
                    } else {
                        unicode::append(body, code);
                    }
            }
        }
        plain(body + '"');
    }

    void write_items(const Value& value) {
        if (value.items().empty()) return plain("[]");
        const Nested nested(machine_);
        plain("[");
        ++level_;
        for (size_t i = 0; i < value.items().size(); ++i) {
            if (i) out.append(style_.item_separator);
            newline();
            write(value.items()[i]);
        }
        --level_;
        newline();
        plain("]");
    }

    void write_dict(const DictObject& dict) {
        if (dict.entries.empty()) return plain("{}");
        const Nested nested(machine_);
        std::vector<const std::pair<Value, Value>*> entries;
        for (const auto& entry : dict.entries) entries.push_back(&entry);
        if (style_.sort_keys) {
            // Insertion sort by Python's `<`, which fails for keys without an order.
            for (size_t i = 1; i < entries.size(); ++i) {
                for (size_t j = i;
                     j > 0 && less(machine_, entries[j]->first, entries[j - 1]->first); --j) {
                    machine_.step_bytes(1024);
                    std::swap(entries[j], entries[j - 1]);
                }
            }
        }
        plain("{");
        ++level_;
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i) out.append(style_.item_separator);
            newline();
            write_key(entries[i]->first);
            out.append(style_.key_separator);
            write(entries[i]->second);
        }
        --level_;
        newline();
        plain("}");
    }

    void write_key(const Value& key) {
        switch (key.kind()) {
            case Kind::string:
                return write_string(key.text());
            case Kind::none:
                return plain("\"null\"");
            case Kind::boolean:
                return plain(key.as_boolean() ? "\"true\"" : "\"false\"");
            case Kind::integer:
                return plain('"' + std::to_string(key.as_integer()) + '"');
            case Kind::real:
                return plain('"' + number(key.as_real()) + '"');
            default:
                fail(std::string("JSON keys cannot be of type ") + type_name(key));
        }
    }

    Machine& machine_;
    const JsonStyle& style_;
    int level_ = 0;
};

}  // namespace

std::string real_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    // d[.ddd]e±xx, the shortest digits that read back as the same double.
    const std::string_view all(buffer, static_cast<size_t>(end.ptr - buffer));
    const size_t e = all.find('e');
    std::string_view mantissa = all.substr(0, e);
    std::string out;
    if (mantissa.front() == '-') {
        out = "-";
        mantissa.remove_prefix(1);
    }
    std::string digits(1, mantissa.front());
    if (mantissa.size() > 2) digits += mantissa.substr(2);
    const int exponent = std::stoi(std::string(all.substr(e + 1)));
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        out += digits.substr(0, 1);
        if (count > 1) out += "." + digits.substr(1);
        return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0)
        return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    if (count <= exponent + 1) {
        return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
    }
    return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
           digits.substr(static_cast<size_t>(exponent) + 1);
}

Text to_text(Machine& machine, const Value& value) {
    Text out;
    append_text(machine, out, value);
    return out;
}

void append_text(Machine& machine, Text& out, const Value& value) {
    const auto plain = [&](std::string_view text) { out.append(text, false); };
    switch (value.kind()) {
        case Kind::missing:
        case Kind::undefined:
            return;
        case Kind::none:
            return plain("None");
        case Kind::boolean:
            return plain(value.as_boolean() ? "True" : "False");
        case Kind::integer:
            return plain(std::to_string(value.as_integer()));
        case Kind::real:
            return plain(real_repr(value.as_real()));
        case Kind::string:
            return out.append(value.text());
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::view:
        case Kind::name_space:
            return out.append(to_repr(machine, value));
        case Kind::range: {
            const auto& r = value.get<RangeObject>();
            return plain(r.step == 1 ? fmt::format("range({}, {})", r.start, r.stop)
                                     : fmt::format("range({}, {}, {})", r.start, r.stop, r.step));
        }
        case Kind::loop: {
            const auto length = length_of(machine, value);
            return plain(fmt::format("<LoopContext {}/{}>", value.get<LoopObject>().index0 + 1,
                                     length.value_or(0)));
        }
        // Python prints an address here, which no template can mean.
        default:
            fail(std::string("a ") + type_name(value) + " has no text");
    }
}

Text to_repr(Machine& machine, const Value& value) {
    Repr repr(machine);
    repr.write(value);
    // Quoting moves bytes around: what holds anything of the user is the user's as a whole.
    if (repr.user) repr.out.mark_all();
    return std::move(repr.out);
}

Text to_json(Machine& machine, const Value& value, const JsonStyle& style) {
    Json json(machine, style);
    json.write(value);
    if (json.user) json.out.mark_all();
    return std::move(json.out);
}

}  // namespace bifocal::jinja
