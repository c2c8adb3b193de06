#include "formats/template/machine.h"

#include <algorithm>

namespace bifocal::jinja {
namespace {

// Iterators over what a template can loop over. Each keeps its container alive.
struct SequenceIterator : Iterator {
    using Iterator::Iterator;
    Value sequence;
    size_t at = 0;
    bool next(Machine&, Value& out) override {
        if (at >= sequence.items().size()) return false;
        out = sequence.items()[at++];
        return true;
    }
};

struct StringIterator : Iterator {
    using Iterator::Iterator;
    Value string;
    size_t at = 0;
    bool next(Machine& machine, Value& out) override {
        const Text& text = string.text();
        if (at >= text.bytes.size()) return false;
        const size_t begin = at;
        next_code_point(text.bytes, at);
        Text letter = text.slice(begin, at);
        letter.markup = false;  // as Python's iterator of a string subclass does
        out = machine.string(std::move(letter));
        return true;
    }
};

struct RangeIterator : Iterator {
    using Iterator::Iterator;
    Value range;
    int64_t at = 0;
    bool next(Machine&, Value& out) override {
        const auto& r = range.get<RangeObject>();
        if (at >= r.size()) return false;
        out = Value::integer(r.at(at++));
        return true;
    }
};

struct DictIterator : Iterator {
    using Iterator::Iterator;
    Value dict;
    ViewObject::Part part = ViewObject::keys;
    size_t at = 0;
    bool next(Machine& machine, Value& out) override {
        const auto& entries = dict.dict().entries;
        if (at >= entries.size()) return false;
        const auto& [key, value] = entries[at++];
        out = part == ViewObject::keys     ? key
              : part == ViewObject::values ? value
                                           : machine.tuple({key, value});
        return true;
    }
};

struct EmptyIterator : Iterator {
    using Iterator::Iterator;
    bool next(Machine&, Value&) override { return false; }
};

}  // namespace

void fail(std::string what) {
    throw Failure{std::move(what)};
}

Machine::~Machine() {
    variables.clear();
    // Namespaces and scopes may hold each other: empty all before any is freed.
    for (const auto& scope : scopes_) scope->slots.clear();
    for (const auto& loop : loops_) loop->last_changed.reset();
    for (const auto& one : namespaces_) one->attributes.clear();
}

void Machine::step(int64_t count) {
    steps_ += count;
    if (steps_ > kMaxSteps) fail("template runs for too long: limit of 1,000,000 steps");
}

void Machine::step_bytes(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ < 4096) return;
    step(static_cast<int64_t>(bytes_ >> 12));
    bytes_ &= 4095;
}

void Machine::step_search(std::string_view text, std::string_view needle) {
    if (needle.size() <= text.size())
        step_bytes(text.size() * std::max<size_t>(needle.size() / 16, 1));
}

void Machine::check_memory() const {
    if (meter.live > kMaxLiveBytes) fail("template needs too much memory: limit of 128 MiB");
}

Value Machine::string(Text text) {
    if (text.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    step_bytes(text.bytes.size());
    Value value =
        Value::object(Kind::string, std::make_shared<StringObject>(&meter, std::move(text)));
    check_memory();
    return value;
}

Value Machine::string(std::string_view bytes, bool user) {
    Text text;
    text.append(bytes, user);
    return string(std::move(text));
}

Value Machine::sequence(Kind kind, std::vector<Value> items) {
    step_bytes(items.size() * 64);
    auto object = std::make_shared<ListObject>(&meter, std::move(items));
    check_memory();
    for (const Value& item : object->items) {
        object->depth = std::max(object->depth, item.depth() + 1);
        object->hashable &= is_hashable(item);
    }
    if (object->depth > kMaxValueDepth) fail("value is nested too deeply");
    return Value::object(kind, std::move(object));
}

Value Machine::dict(std::shared_ptr<DictObject> dict) {
    check_memory();
    return Value::object(Kind::dict, std::move(dict));
}

Value Machine::undefined(const std::string& why) {
    return Value::object(Kind::undefined, std::make_shared<UndefinedObject>(&meter, why));
}

Value Machine::range(int64_t start, int64_t stop, int64_t step_by) {
    auto range = std::make_shared<RangeObject>(&meter, sizeof(RangeObject));
    range->start = start;
    range->stop = stop;
    range->step = step_by;
    return Value::object(Kind::range, std::move(range));
}

Value Machine::iterator(std::shared_ptr<Iterator> iterator) {
    if (iterator->depth > kMaxValueDepth) fail("value is nested too deeply");
    return Value::object(Kind::iterator, std::move(iterator));
}

std::shared_ptr<NamespaceObject> Machine::new_namespace() {
    namespaces_.push_back(std::make_shared<NamespaceObject>(&meter, sizeof(NamespaceObject) + 32));
    check_memory();
    return namespaces_.back();
}

Scope* Machine::keep(std::unique_ptr<Scope> scope) {
    meter.live += sizeof(Scope) + scope->slots.size() * sizeof(Value);
    scopes_.push_back(std::move(scope));
    check_memory();
    return scopes_.back().get();
}

std::shared_ptr<Iterator> iterate(Machine& machine, const Value& value) {
    Meter* meter = &machine.meter;
    const auto deeper = [&](auto iterator) {
        iterator->depth = value.depth() + 1;
        return iterator;
    };
    switch (value.kind()) {
        case Kind::undefined:
            return std::make_shared<EmptyIterator>(meter, 64);
        case Kind::string: {
            auto it = std::make_shared<StringIterator>(meter, sizeof(StringIterator));
            it->string = value;
            return deeper(it);
        }
        case Kind::list:
        case Kind::tuple: {
            auto it = std::make_shared<SequenceIterator>(meter, sizeof(SequenceIterator));
            it->sequence = value;
            return deeper(it);
        }
        case Kind::range: {
            auto it = std::make_shared<RangeIterator>(meter, sizeof(RangeIterator));
            it->range = value;
            return deeper(it);
        }
        case Kind::dict:
        case Kind::view: {
            auto it = std::make_shared<DictIterator>(meter, sizeof(DictIterator));
            it->dict = value.is(Kind::dict) ? value : value.get<ViewObject>().dict;
            it->part = value.is(Kind::dict) ? ViewObject::keys : value.get<ViewObject>().part;
            return deeper(it);
        }
        case Kind::iterator: {
            // Shared with the value: what one reader takes, the next does not see.
            Value keep = value;
            return {std::make_shared<Value>(keep), &keep.get<Iterator>()};
        }
        case Kind::loop:
            fail("looping over the loop variable is not supported");
        default:
            fail(std::string("'") + type_name(value) + "' object is not iterable");
    }
}

std::vector<Value> to_vector(Machine& machine, const Value& value) {
    if (value.is_sequence()) {
        machine.step_bytes(value.items().size() * 64);
        return value.items();
    }
    std::vector<Value> items;
    const auto iterator = iterate(machine, value);
    for (Value item; iterator->next(machine, item);) {
        machine.step_bytes(256);
        items.push_back(std::move(item));
        if (items.size() * sizeof(Value) + machine.meter.live > kMaxLiveBytes)
            fail("template needs too much memory: limit of 128 MiB");
    }
    return items;
}

bool contains(Machine& machine, const Value& container, const Value& item) {
    switch (container.kind()) {
        case Kind::string:
            if (!item.is_string()) {
                fail(std::string("'in <string>' requires a string on its left, not ") +
                     type_name(item));
            }
            machine.step_search(container.text().bytes, item.text().bytes);
            return container.text().bytes.find(item.text().bytes) != std::string::npos;
        case Kind::dict:
            return find(machine, container.dict(), item) != nullptr;
        case Kind::view: {
            const auto& view = container.get<ViewObject>();
            if (view.part == ViewObject::keys)
                return find(machine, view.dict.dict(), item) != nullptr;
            break;
        }
        case Kind::name_space:
        case Kind::macro:
        case Kind::function:
        case Kind::method:
        case Kind::none:
        case Kind::boolean:
        case Kind::integer:
        case Kind::real:
        case Kind::cycler:
        case Kind::joiner:
            fail(std::string("argument of type '") + type_name(container) + "' is not iterable");
        default:
            break;
    }
    const auto iterator = iterate(machine, container);
    for (Value one; iterator->next(machine, one);) {
        if (equal(machine, one, item)) return true;
    }
    return false;
}

}  // namespace bifocal::jinja
