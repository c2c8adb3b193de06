#include "formats/template/value.h"

#include <cmath>

#include "formats/template/machine.h"

namespace bifocal::jinja {
namespace {

constexpr size_t kIndexedFrom = 12;  // entries from which a dictionary is looked up by hash

size_t hash_of(Machine& machine, const Value& value) {
    machine.step_bytes(64);
    switch (value.kind()) {
        case Kind::boolean:
        case Kind::integer:
            return std::hash<int64_t>{}(value.as_integer());
        case Kind::real: {
            const double d = value.as_real();
            // Equal numbers are equal keys, whatever their kind.
            if (d == std::floor(d) && std::abs(d) < 9.2e18)
                return std::hash<int64_t>{}(static_cast<int64_t>(d));
            return std::hash<double>{}(d);
        }
        case Kind::string:
            machine.step_bytes(value.text().bytes.size());
            return std::hash<std::string_view>{}(value.text().bytes);
        case Kind::tuple: {
            const Nested nested(machine);
            size_t hash = 17;
            for (const Value& item : value.items()) hash = hash * 1000003 ^ hash_of(machine, item);
            return hash;
        }
        default:
            return std::hash<const void*>{}(value.identity());
    }
}

bool equal_sequences(Machine& machine, const Value& a, const Value& b) {
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i) {
        if (!equal(machine, a.items()[i], b.items()[i])) return false;
    }
    return true;
}

bool equal_dicts(Machine& machine, const DictObject& a, const DictObject& b) {
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto& [key, value] : a.entries) {
        const Value* other = find(machine, b, key);
        if (!other || !equal(machine, value, *other)) return false;
    }
    return true;
}

}  // namespace

Value Value::boolean(bool b) {
    Value value = with_kind(Kind::boolean);
    value.integer_ = b;
    return value;
}

Value Value::integer(int64_t i) {
    Value value = with_kind(Kind::integer);
    value.integer_ = i;
    return value;
}

Value Value::real(double d) {
    Value value = with_kind(Kind::real);
    value.real_ = d;
    return value;
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
    Value value = with_kind(kind);
    value.object_ = std::move(object);
    return value;
}

Value Value::literal(std::string_view bytes) {
    Text text;
    text.bytes = bytes;
    return object(Kind::string, std::make_shared<StringObject>(nullptr, std::move(text)));
}

double Value::as_real() const {
    return kind_ == Kind::real ? real_ : static_cast<double>(integer_);
}
const Text& Value::text() const {
    return get<StringObject>().text;
}
const std::vector<Value>& Value::items() const {
    return get<ListObject>().items;
}
const DictObject& Value::dict() const {
    return get<DictObject>();
}

int64_t RangeObject::size() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value* NamespaceObject::find(std::string_view name) {
    for (auto& [key, value] : attributes) {
        if (key == name) return &value;
    }
    return nullptr;
}

void NamespaceObject::set(std::string_view name, Value value) {
    if (Value* old = find(name)) {
        *old = std::move(value);
    } else {
        attributes.emplace_back(name, std::move(value));
        grow(sizeof(attributes[0]));
    }
}

bool LoopObject::peek(Machine& machine, Value& out) {
    if (buffered.empty()) {
        Value next;
        if (!source->next(machine, next)) return false;
        buffered.push_back(std::move(next));
    }
    out = buffered.back();
    return true;
}

bool LoopObject::advance(Machine& machine, Value& out) {
    if (!peek(machine, out)) return false;
    buffered.pop_back();
    ++index0;
    before = std::move(current);
    current = out;
    return true;
}

const char* type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::missing:
        case Kind::undefined:
            return "Undefined";
        case Kind::none:
            return "None";
        case Kind::boolean:
            return "bool";
        case Kind::integer:
            return "int";
        case Kind::real:
            return "float";
        case Kind::string:
            return value.text().markup ? "Markup" : "str";
        case Kind::list:
            return "list";
        case Kind::tuple:
            return "tuple";
        case Kind::dict:
            return "dict";
        case Kind::range:
            return "range";
        case Kind::view:
            return "dict view";
        case Kind::iterator:
            return "generator";
        case Kind::name_space:
            return "Namespace";
        case Kind::loop:
            return "LoopContext";
        case Kind::macro:
            return "Macro";
        case Kind::function:
            return "function";
        case Kind::method:
            return "method";
        case Kind::cycler:
            return "Cycler";
        case Kind::joiner:
            return "Joiner";
    }
    return "?";
}

bool truthy(const Value& value) {
    switch (value.kind()) {
        case Kind::missing:
        case Kind::none:
        case Kind::undefined:
            return false;
        case Kind::boolean:
        case Kind::integer:
            return value.as_integer() != 0;
        case Kind::real:
            return value.as_real() != 0;
        case Kind::string:
            return !value.text().bytes.empty();
        case Kind::list:
        case Kind::tuple:
            return !value.items().empty();
        case Kind::dict:
            return !value.dict().entries.empty();
        case Kind::range:
            return value.get<RangeObject>().size() > 0;
        case Kind::view:
            return !value.get<ViewObject>().dict.dict().entries.empty();
        default:
            return true;
    }
}

bool is_hashable(const Value& value) {
    switch (value.kind()) {
        case Kind::list:
        case Kind::dict:
            return false;
        case Kind::view:
            return value.get<ViewObject>().part == ViewObject::values;
        case Kind::tuple:
            return value.get<ListObject>().hashable;
        default:
            return true;
    }
}

bool is_callable(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:  // has a call operator: one that fails
        case Kind::macro:
        case Kind::function:
        case Kind::method:
        case Kind::loop:
        case Kind::joiner:
            return true;
        default:
            return false;
    }
}

bool is_iterable(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
        case Kind::string:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::range:
        case Kind::view:
        case Kind::iterator:
        case Kind::loop:
            return true;
        default:
            return false;
    }
}

std::optional<int64_t> length_of(Machine& machine, const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
            return 0;
        case Kind::string:
            machine.step_bytes(value.text().bytes.size());
            return static_cast<int64_t>(count_code_points(value.text().bytes));
        case Kind::list:
        case Kind::tuple:
            return static_cast<int64_t>(value.items().size());
        case Kind::dict:
            return static_cast<int64_t>(value.dict().entries.size());
        case Kind::range:
            return value.get<RangeObject>().size();
        case Kind::view:
            return static_cast<int64_t>(value.get<ViewObject>().dict.dict().entries.size());
        case Kind::loop: {
            auto& loop = value.get<LoopObject>();
            if (loop.length) return loop.length;
            loop.length = length_of(machine, loop.iterable);
            if (loop.length) return loop.length;
            // A generator has no length: read it to its end, then go on from the copy.
            std::vector<Value> rest;
            Value item;
            while (loop.source->next(machine, item)) {
                machine.step();
                rest.push_back(item);
            }
            rest.insert(rest.begin(), loop.buffered.rbegin(), loop.buffered.rend());
            loop.buffered.assign(rest.rbegin(), rest.rend());
            loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1;
            return loop.length;
        }
        default:
            return std::nullopt;
    }
}

int compare_numbers(const Value& a, const Value& b, bool& unordered) {
    unordered = false;
    if (a.is_integral() && b.is_integral()) {
        return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
    }
    if (a.is_integral()) return -compare_numbers(b, a, unordered);
    const double d = a.as_real();
    if (std::isnan(d) || (b.is(Kind::real) && std::isnan(b.as_real()))) {
        unordered = true;
        return 1;
    }
    if (b.is(Kind::real)) return d < b.as_real() ? -1 : d > b.as_real();
    // A double against an integer, exactly.
    if (d >= 9223372036854775808.0) return 1;
    if (d < -9223372036854775808.0) return -1;
    const auto whole = static_cast<int64_t>(d);
    if (whole != b.as_integer()) return whole < b.as_integer() ? -1 : 1;
    const double rest = d - static_cast<double>(whole);
    return rest < 0 ? -1 : rest > 0;
}

bool equal(Machine& machine, const Value& a, const Value& b) {
    machine.step_bytes(256);
    if (a.is_number() && b.is_number()) {
        bool unordered = false;
        return compare_numbers(a, b, unordered) == 0 && !unordered;
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case Kind::none:
        case Kind::undefined:
            return true;
        case Kind::string:
            if (a.text().bytes.size() != b.text().bytes.size()) return false;
            machine.step_bytes(a.text().bytes.size());
            return a.text().bytes == b.text().bytes;
        default:
            break;
    }
    if (a.identity() == b.identity()) return true;
    const Nested nested(machine);
    machine.step();
    switch (a.kind()) {
        case Kind::list:
        case Kind::tuple:
            return equal_sequences(machine, a, b);
        case Kind::dict:
            return equal_dicts(machine, a.dict(), b.dict());
        case Kind::range: {
            const auto &x = a.get<RangeObject>(), &y = b.get<RangeObject>();
            const int64_t n = x.size();
            return n == y.size() &&
                   (n == 0 || (x.start == y.start && (n == 1 || x.step == y.step)));
        }
        default:
            return false;
    }
}

bool less(Machine& machine, const Value& a, const Value& b) {
    machine.step_bytes(256);
    for (const Value* side : {&a, &b}) {
        if (side->is(Kind::undefined)) fail(side->get<UndefinedObject>().message);
    }
    if (a.is_number() && b.is_number()) {
        bool unordered = false;
        return compare_numbers(a, b, unordered) < 0 && !unordered;
    }
    if (a.is_string() && b.is_string()) {
        machine.step_bytes(std::min(a.text().bytes.size(), b.text().bytes.size()));
        return a.text().bytes < b.text().bytes;  // byte order of UTF-8 is code point order
    }
    if (a.kind() == b.kind() && a.is_sequence()) {
        const Nested nested(machine);
        machine.step();
        const auto &x = a.items(), &y = b.items();
        for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
            if (!equal(machine, x[i], y[i])) return less(machine, x[i], y[i]);
        }
        return x.size() < y.size();
    }
    fail(std::string("'") + type_name(a) + "' and '" + type_name(b) + "' cannot be ordered");
}

const Value* find(Machine& machine, const DictObject& dict, const Value& key) {
    if (!is_hashable(key)) fail(std::string("unhashable key of type '") + type_name(key) + "'");
    if (dict.entries.size() < kIndexedFrom) {
        for (const auto& [k, v] : dict.entries) {
            if (equal(machine, k, key)) return &v;
        }
        return nullptr;
    }
    const auto [from, to] = dict.index.equal_range(hash_of(machine, key));
    for (auto it = from; it != to; ++it) {
        if (equal(machine, dict.entries[it->second].first, key))
            return &dict.entries[it->second].second;
    }
    return nullptr;
}

const Value* find(const DictObject& dict, std::string_view key) {
    if (dict.entries.size() < kIndexedFrom) {
        for (const auto& [k, v] : dict.entries) {
            if (k.is_string() && k.text().bytes == key) return &v;
        }
        return nullptr;
    }
    const auto [from, to] = dict.index.equal_range(std::hash<std::string_view>{}(key));
    for (auto it = from; it != to; ++it) {
        const auto& [k, v] = dict.entries[it->second];
        if (k.is_string() && k.text().bytes == key) return &v;
    }
    return nullptr;
}

void insert(Machine& machine, DictObject& dict, Value key, Value value) {
    if (const Value* old = find(machine, dict, key)) {
        *const_cast<Value*>(old) = std::move(value);  // the dictionary itself is being built
        return;
    }
    dict.depth = std::max({dict.depth, key.depth() + 1, value.depth() + 1});
    if (dict.depth > kMaxValueDepth) fail("value is nested too deeply");
    dict.entries.emplace_back(std::move(key), std::move(value));
    dict.grow(sizeof(dict.entries[0]) * 2);
    const size_t count = dict.entries.size();
    if (count < kIndexedFrom) return;
    for (size_t i = count == kIndexedFrom ? 0 : count - 1; i < count; ++i) {
        dict.index.emplace(hash_of(machine, dict.entries[i].first), i);
        dict.grow(48);
    }
    machine.check_memory();
}

}  // namespace bifocal::jinja
