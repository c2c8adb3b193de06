// `a.b`, `a[b]` and slices. As in Jinja's sandbox: a dot asks the object's attributes first and its
// items second, brackets the other way round; what would change a container is out of reach.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "formats/template/ast.h"
#include "formats/template/machine.h"

namespace bifocal::jinja {
namespace {

Value unsafe(Machine& m, const Value& object, const std::string& name) {
    return m.undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(object)));
}

bool changes_container(const Value& object, std::string_view name) {
    static constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                                 "insert", "sort",  "extend", "remove"};
    static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (object.is(Kind::list)) return std::ranges::count(kList, name) > 0;
    return object.is(Kind::dict) && std::ranges::count(kDict, name) > 0;
}

std::optional<Value> loop_attribute(Machine& m, const Value& object, std::string_view name) {
    auto& loop = object.get<LoopObject>();
    Value item;
    const auto length = [&] { return *length_of(m, object); };
    if (name == "index0") return Value::integer(loop.index0);
    if (name == "index") return Value::integer(loop.index0 + 1);
    if (name == "first") return Value::boolean(loop.index0 == 0);
    if (name == "last") return Value::boolean(!loop.peek(m, item));
    if (name == "length") return Value::integer(length());
    if (name == "revindex") return Value::integer(length() - loop.index0);
    if (name == "revindex0") return Value::integer(length() - loop.index0 - 1);
    if (name == "depth") return Value::integer(loop.depth0 + 1);
    if (name == "depth0") return Value::integer(loop.depth0);
    if (name == "previtem")
        return loop.index0 == 0 ? m.undefined("there is no previous item") : loop.before;
    if (name == "nextitem") return loop.peek(m, item) ? item : m.undefined("there is no next item");
    return std::nullopt;
}

std::optional<Value> macro_attribute(Machine& m, const Value& object, std::string_view name) {
    const Stmt& macro = *object.get<MacroObject>().definition;
    if (name == "name") return macro.name.empty() ? Value::none() : m.string(macro.name);
    if (name == "catch_kwargs") return Value::boolean(macro.takes_kwargs);
    if (name == "catch_varargs") return Value::boolean(macro.takes_varargs);
    if (name == "caller") return Value::boolean(macro.takes_caller);
    if (name == "arguments") {
        std::vector<Value> names;
        for (const auto& one : macro.parameters) names.push_back(m.string(one));
        return m.tuple(std::move(names));
    }
    return std::nullopt;
}

// What getattr() of Python would find; unsafe ones give an undefined value that says so.
std::optional<Value> attribute(Machine& m, const Value& object, const std::string& name) {
    if (object.is(Kind::undefined)) fail(object.get<UndefinedObject>().message);
    if (object.is(Kind::name_space)) {
        if (const Value* value = object.get<NamespaceObject>().find(name)) {
            if (name.starts_with('_')) return unsafe(m, object, name);
            return *value;
        }
        return std::nullopt;
    }
    if (object.is(Kind::loop)) {
        if (auto value = loop_attribute(m, object, name)) return value;
    }
    if (object.is(Kind::macro)) {
        if (auto value = macro_attribute(m, object, name)) return value;
    }
    if (object.is(Kind::tuple) && object.get<ListObject>().group) {
        if (name == "grouper") return object.items()[0];
        if (name == "list") return object.items()[1];
    }
    if (object.is(Kind::cycler) && name == "current") {
        const auto& cycler = object.get<CyclerObject>();
        return cycler.items[cycler.at];
    }
    if (const Method method = find_method(object.kind(), name)) {
        auto bound = std::make_shared<MethodObject>(&m.meter, sizeof(MethodObject));
        bound->name = name;
        bound->self = object;
        bound->call = method;
        bound->depth = object.depth() + 1;
        if (bound->depth > kMaxValueDepth) fail("value is nested too deeply");
        return Value::object(Kind::method, std::move(bound));
    }
    if (changes_container(object, name)) return unsafe(m, object, name);
    if (!is_python_attribute(object, name)) return std::nullopt;
    if (name.starts_with('_')) return unsafe(m, object, name);
    fail(fmt::format("attribute '{}' of '{}' is not supported", name, type_name(object)));
}

std::optional<Value> item(Machine& m, const Value& object, const Value& key) {
    if (object.is(Kind::undefined)) fail(object.get<UndefinedObject>().message);
    if (object.is(Kind::dict)) {
        if (!is_hashable(key)) return std::nullopt;
        const Value* found = find(m, object.dict(), key);
        return found ? std::optional(*found) : std::nullopt;
    }
    if (!key.is_integral()) return std::nullopt;
    int64_t index = key.as_integer();
    if (object.is_sequence() || object.is(Kind::range)) {
        const int64_t size = *length_of(m, object);
        if (index < 0) index += size;
        if (index < 0 || index >= size) return std::nullopt;
        return object.is(Kind::range) ? Value::integer(object.get<RangeObject>().at(index))
                                      : object.items()[static_cast<size_t>(index)];
    }
    if (object.is_string()) {
        const Text& text = object.text();
        const int64_t size = *length_of(m, object);
        if (index < 0) index += size;
        if (index < 0 || index >= size) return std::nullopt;
        const size_t begin = byte_of_code_point(text.bytes, static_cast<size_t>(index));
        size_t end = begin;
        next_code_point(text.bytes, end);
        return m.string(text.slice(begin, end));
    }
    return std::nullopt;
}

std::string object_name(const Value& object) {
    return object.is(Kind::none) ? "None" : fmt::format("{} object", type_name(object));
}

// Bounds of a slice as Python's slice.indices() gives them.
struct Bounds {
    int64_t start, stop, step, count;
};

Bounds bounds_of(int64_t size, const Value& start, const Value& stop, const Value& step) {
    Bounds b{};
    b.step = step.is(Kind::none) ? 1 : index_argument(step, "slice step");
    if (b.step == 0) fail("slice step cannot be zero");
    b.step = std::max(b.step, -std::numeric_limits<int64_t>::max());
    const int64_t low = b.step < 0 ? -1 : 0, high = b.step < 0 ? size - 1 : size;
    const auto clamp = [&](const Value& value, int64_t otherwise) {
        if (value.is(Kind::none)) return otherwise;
        int64_t index = index_argument(value, "slice index");
        if (index < 0) index = index < -size ? -1 : index + size;
        return std::clamp(index, low, high);
    };
    b.start = clamp(start, b.step < 0 ? high : low);
    b.stop = clamp(stop, b.step < 0 ? low : high);
    b.count = b.step > 0 ? (b.start < b.stop ? (b.stop - b.start - 1) / b.step + 1 : 0)
                         : (b.start > b.stop ? (b.start - b.stop - 1) / -b.step + 1 : 0);
    return b;
}

}  // namespace

Value get_attribute(Machine& m, const Value& object, const std::string& name) {
    if (auto value = attribute(m, object, name)) return *value;
    if (object.is(Kind::dict)) {
        if (const Value* found = find(object.dict(), name)) return *found;
    }
    return m.undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value get_item(Machine& m, const Value& object, const Value& key) {
    if (auto value = item(m, object, key)) return *value;
    if (key.is_string()) {
        const std::string& name = key.text().bytes;
        if (auto value = attribute(m, object, name)) return *value;
        return m.undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
    }
    return m.undefined(fmt::format("{} has no such element", object_name(object)));
}

Value get_slice(Machine& m, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
    if (object.is(Kind::undefined)) fail(object.get<UndefinedObject>().message);
    const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::range);
    if (!sliceable) fail(fmt::format("'{}' object cannot be sliced", type_name(object)));
    const Bounds b = bounds_of(*length_of(m, object), start, stop, step);
    if (object.is(Kind::range)) {
        const auto& r = object.get<RangeObject>();
        int64_t by = 0;
        if (__builtin_mul_overflow(r.step, b.step, &by) || by > kMaxRangeBound ||
            by < -kMaxRangeBound)
            by = b.step < 0 ? -1 : 1;  // at most one element is left
        return m.range(r.at(b.start), r.at(b.stop), by);
    }
    const auto count = static_cast<size_t>(b.count);
    if (object.is_sequence()) {
        std::vector<Value> items;
        items.reserve(count);
        for (size_t i = 0; i < count; ++i)
            items.push_back(
                object.items()[static_cast<size_t>(b.start + static_cast<int64_t>(i) * b.step)]);
        return m.sequence(object.kind(), std::move(items));
    }
    const Text& text = object.text();
    if (b.step == 1) {
        const size_t begin = byte_of_code_point(text.bytes, static_cast<size_t>(b.start));
        const size_t length = byte_of_code_point(std::string_view(text.bytes).substr(begin), count);
        return m.string(text.slice(begin, begin + length));
    }
    const std::vector<Letter> all = letters(text);
    std::vector<Letter> chosen;
    chosen.reserve(count);
    for (size_t i = 0; i < count; ++i)
        chosen.push_back(all[static_cast<size_t>(b.start + static_cast<int64_t>(i) * b.step)]);
    Text result = from_letters(chosen);
    result.markup = text.markup;
    return m.string(std::move(result));
}

}  // namespace bifocal::jinja
