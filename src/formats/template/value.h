// Values of the template language: what Python's none, bool, int, float, str, list, tuple, dict and
// the few objects of Jinja are to a chat template. Containers are immutable, so values share
// freely; only a namespace changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/template/text.h"

namespace bifocal::jinja {

class Machine;
struct Stmt;
struct Scope;

enum class Kind : uint8_t {
    missing,  // a variable that has no value yet; never seen by a template
    none,
    undefined,
    boolean,
    integer,
    real,
    string,
    list,
    tuple,
    dict,
    range,
    view,
    iterator,
    name_space,
    loop,
    macro,
    function,
    method,
    cycler,
    joiner,
};

// Live bytes of one rendering. Objects report to the meter they were made under.
struct Meter {
    size_t live = 0;
};

struct Object {
    explicit Object(Meter* m = nullptr, size_t n = 0) : meter(m), bytes(n) {
        if (meter) meter->live += bytes;
    }
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() {
        if (meter) meter->live -= bytes;
    }
    void grow(size_t n) {
        bytes += n;
        if (meter) meter->live += n;
    }

    Meter* meter;
    size_t bytes;
    uint32_t depth = 0;  // of nesting; bounded, so that walking and freeing a value cannot overflow
};

struct StringObject;
struct UndefinedObject;
struct ListObject;
struct DictObject;

class Value {
  public:
    Value() = default;
    static Value missing() { return with_kind(Kind::missing); }
    static Value none() { return {}; }
    static Value boolean(bool b);
    static Value integer(int64_t i);
    static Value real(double d);
    static Value object(Kind kind, std::shared_ptr<Object> object);
    static Value literal(std::string_view bytes);  // a string outside any meter

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_missing() const { return kind_ == Kind::missing; }
    bool is_string() const { return kind_ == Kind::string; }
    bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
    bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
    bool is_number() const { return is_integral() || kind_ == Kind::real; }

    bool as_boolean() const { return integer_ != 0; }
    int64_t as_integer() const { return integer_; }  // also of a boolean
    double as_real() const;                          // of any number
    const Text& text() const;                        // REQUIRES: is_string()
    const std::vector<Value>& items() const;         // REQUIRES: is_sequence()
    const DictObject& dict() const;                  // REQUIRES: is(Kind::dict)
    template <class T>
    T& get() const {
        return *static_cast<T*>(object_.get());
    }
    const Object* identity() const { return object_.get(); }
    const std::shared_ptr<Object>& shared() const { return object_; }
    uint32_t depth() const { return object_ ? object_->depth : 0; }

  private:
    static Value with_kind(Kind kind) {
        Value value;
        value.kind_ = kind;
        return value;
    }

    Kind kind_ = Kind::none;
    union {
        int64_t integer_ = 0;
        double real_;
    };
    std::shared_ptr<Object> object_;
};

struct StringObject : Object {
    StringObject(Meter* m, Text t) : Object(m, t.bytes.capacity() + 64), text(std::move(t)) {}
    Text text;
};

struct UndefinedObject : Object {
    UndefinedObject(Meter* m, const std::string& why)
        : Object(m, why.capacity() + 64), message(why) {}
    std::string message;  // of the error that using it raises
};

struct ListObject : Object {
    ListObject(Meter* m, std::vector<Value> v)
        : Object(m, v.capacity() * sizeof(Value) + 64), items(std::move(v)) {}
    std::vector<Value> items;
    bool hashable = true;  // all items are, so that a tuple may be a key
    bool group = false;    // a pair made by `groupby`, with .grouper and .list
};

struct DictObject : Object {
    explicit DictObject(Meter* m) : Object(m, 64) {}
    std::vector<std::pair<Value, Value>> entries;   // in order of first insertion
    std::unordered_multimap<size_t, size_t> index;  // hash to entry, when there are many
};

struct RangeObject : Object {
    using Object::Object;
    int64_t start = 0, stop = 0, step = 1;
    int64_t size() const;
    int64_t at(int64_t i) const { return start + i * step; }
};

struct ViewObject : Object {
    using Object::Object;
    enum Part { keys, values, items } part = keys;
    Value dict;
};

// Anything that gives one value after the other and can do so once.
struct Iterator : Object {
    using Object::Object;
    virtual bool next(Machine& machine, Value& out) = 0;
};

struct NamespaceObject : Object {
    using Object::Object;
    std::vector<std::pair<std::string, Value>> attributes;
    Value* find(std::string_view name);
    void set(std::string_view name, Value value);
};

struct LoopObject : Object {
    using Object::Object;
    Value iterable;
    std::shared_ptr<Iterator> source;
    std::vector<Value> buffered;  // read ahead, next one last
    Value current, before;
    int64_t index0 = -1;
    int64_t depth0 = 0;
    std::optional<int64_t> length;
    std::optional<std::vector<Value>> last_changed;
    const Stmt* recursive = nullptr;  // the `for ... recursive` that calling this repeats
    Scope* outer = nullptr;
    bool peek(Machine& machine, Value& out);
    bool advance(Machine& machine, Value& out);
};

struct MacroObject : Object {
    using Object::Object;
    const Stmt* definition = nullptr;
    Scope* closure = nullptr;
};

struct Args;
using Function = Value (*)(Machine&, Args&);
using Method = Value (*)(Machine&, const Value& self, Args&);

struct FunctionObject : Object {
    using Object::Object;
    std::string_view name;
    Function call = nullptr;
};

struct MethodObject : Object {
    using Object::Object;
    std::string_view name;
    Value self;
    Method call = nullptr;
};

struct CyclerObject : Object {
    using Object::Object;
    std::vector<Value> items;
    size_t at = 0;
};

struct JoinerObject : Object {
    using Object::Object;
    Value separator;
    bool used = false;
};

// Arguments of a call.
struct Args {
    struct Named {
        std::string name;
        Value value;
        bool user = false;  // the name itself came from the user, by `**`
    };
    std::vector<Value> positional;
    std::vector<Named> named;
};

const char* type_name(const Value& value);  // as Python names it: "str", "dict"
bool truthy(const Value& value);
bool is_hashable(const Value& value);
bool is_callable(const Value& value);
bool is_iterable(const Value& value);
std::optional<int64_t> length_of(Machine& machine, const Value& value);

bool equal(Machine& machine, const Value& a, const Value& b);
// Python's `<` of two values; fails for kinds without an order.
bool less(Machine& machine, const Value& a, const Value& b);
int compare_numbers(const Value& a, const Value& b, bool& unordered);

const Value* find(Machine& machine, const DictObject& dict, const Value& key);
const Value* find(const DictObject& dict, std::string_view key);
// Adds or replaces; fails for keys that cannot be hashed.
void insert(Machine& machine, DictObject& dict, Value key, Value value);

// str() and repr() of Python.
Text to_text(Machine& machine, const Value& value);
void append_text(Machine& machine, Text& out, const Value& value);
Text to_repr(Machine& machine, const Value& value);
std::string real_repr(double value);

struct JsonStyle {
    bool ascii = false;
    std::optional<Text> indent;
    Text item_separator, key_separator;
    bool sort_keys = false;
};
Text to_json(Machine& machine, const Value& value, const JsonStyle& style);

}  // namespace bifocal::jinja
