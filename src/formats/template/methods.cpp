// Methods of dictionaries, lists and the helper objects, and the table of all methods.
#include "formats/template/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace bifocal::jinja {
namespace {

Value view(Machine& m, const Value& self, ViewObject::Part part, Args& args,
           std::string_view name) {
    bind(args, name, {});
    auto object = std::make_shared<ViewObject>(&m.meter, sizeof(ViewObject));
    object->part = part;
    object->dict = self;
    object->depth = self.depth() + 1;
    if (object->depth > kMaxValueDepth) fail("value is nested too deeply");
    return Value::object(Kind::view, std::move(object));
}

Value dict_items(Machine& m, const Value& self, Args& args) {
    return view(m, self, ViewObject::items, args, "items");
}
Value dict_keys(Machine& m, const Value& self, Args& args) {
    return view(m, self, ViewObject::keys, args, "keys");
}
Value dict_values(Machine& m, const Value& self, Args& args) {
    return view(m, self, ViewObject::values, args, "values");
}

void positional_only(const Args& args, std::string_view name) {
    if (!args.named.empty()) fail(fmt::format("{}() takes no keyword arguments", name));
}

Value dict_get(Machine& m, const Value& self, Args& args) {
    positional_only(args, "get");
    const auto bound = bind(args, "get", {"key", "default"}, 1);
    const Value* found = find(m, self.dict(), bound[0]);
    return found ? *found : bound[1].is_missing() ? Value::none() : bound[1];
}

Value copy(Machine&, const Value& self, Args& args) {
    bind(args, "copy", {});
    return self;  // containers never change, so one is as good as two
}

Value count(Machine& m, const Value& self, Args& args) {
    positional_only(args, "count");
    const auto bound = bind(args, "count", {"value"}, 1);
    int64_t n = 0;
    for (const Value& item : to_vector(m, self)) n += equal(m, item, bound[0]);
    return Value::integer(n);
}

Value index(Machine& m, const Value& self, Args& args) {
    positional_only(args, "index");
    const auto bound = bind(args, "index", {"value", "start", "stop"}, 1);
    const auto items = to_vector(m, self);
    const auto size = static_cast<int64_t>(items.size());
    const auto edge = [&](const Value& value, int64_t otherwise) {
        if (value.is_missing()) return otherwise;
        const int64_t at = index_argument(value, "an index");
        return at < 0 ? std::max<int64_t>(at < -size ? 0 : at + size, 0) : std::min(at, size);
    };
    for (int64_t i = edge(bound[1], 0); i < edge(bound[2], size); ++i) {
        if (equal(m, items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
    }
    fail("value is not in the sequence");
}

Value loop_cycle(Machine&, const Value& self, Args& args) {
    positional_only(args, "cycle");
    if (args.positional.empty()) fail("no items for cycling given");
    const auto at = static_cast<size_t>(self.get<LoopObject>().index0);
    return args.positional[at % args.positional.size()];
}

Value loop_changed(Machine& m, const Value& self, Args& args) {
    positional_only(args, "changed");
    auto& loop = self.get<LoopObject>();
    if (loop.last_changed && equal(m, m.tuple(*loop.last_changed), m.tuple(args.positional)))
        return Value::boolean(false);
    if (!loop.last_changed) m.keep(std::static_pointer_cast<LoopObject>(self.shared()));
    loop.last_changed = args.positional;
    return Value::boolean(true);
}

Value cycler_next(Machine&, const Value& self, Args& args) {
    bind(args, "next", {});
    auto& cycler = self.get<CyclerObject>();
    const Value item = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return item;
}

Value cycler_reset(Machine&, const Value& self, Args& args) {
    bind(args, "reset", {});
    self.get<CyclerObject>().at = 0;
    return Value::none();
}

using Table = std::unordered_map<std::string_view, Method>;

}  // namespace

Method find_method(Kind kind, std::string_view name) {
    static const Table kDict = {{"items", dict_items},
                                {"keys", dict_keys},
                                {"values", dict_values},
                                {"get", dict_get},
                                {"copy", copy}};
    static const Table kList = {{"count", count}, {"index", index}, {"copy", copy}};
    static const Table kTuple = {{"count", count}, {"index", index}};
    static const Table kLoop = {{"cycle", loop_cycle}, {"changed", loop_changed}};
    static const Table kCycler = {{"next", cycler_next}, {"reset", cycler_reset}};
    static const Table kNone = {};
    const Table& table = kind == Kind::string                         ? string_methods()
                         : kind == Kind::dict                         ? kDict
                         : kind == Kind::list                         ? kList
                         : kind == Kind::tuple || kind == Kind::range ? kTuple
                         : kind == Kind::loop                         ? kLoop
                         : kind == Kind::cycler                       ? kCycler
                                                                      : kNone;
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

// Names that an object of Python has and ours has not: asking for one must not silently give an
// undefined value or an item of that name.
bool is_python_attribute(const Value& value, std::string_view name) {
    static constexpr std::string_view kObject[] = {
        "__class__",  "__delattr__",   "__dir__",          "__doc__",
        "__eq__",     "__format__",    "__ge__",           "__getattribute__",
        "__gt__",     "__hash__",      "__init__",         "__init_subclass__",
        "__le__",     "__lt__",        "__ne__",           "__new__",
        "__reduce__", "__reduce_ex__", "__repr__",         "__setattr__",
        "__sizeof__", "__str__",       "__subclasshook__", "__getstate__",
    };
    static constexpr std::string_view kContainer[] = {
        "__contains__", "__getitem__", "__iter__",       "__len__",           "__add__",
        "__mul__",      "__rmul__",    "__getnewargs__", "__class_getitem__", "__reversed__",
        "__or__",       "__ror__",     "__ior__",        "__iadd__",          "__imul__",
        "__setitem__",  "__delitem__", "__mod__",        "__rmod__",
    };
    static constexpr std::string_view kString[] = {"encode", "isidentifier", "maketrans",
                                                   "translate", "format_map"};
    static constexpr std::string_view kInteger[] = {
        "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
        "from_bytes",       "imag",      "numerator",  "real",      "to_bytes"};
    static constexpr std::string_view kReal[] = {
        "as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "real", "is_integer"};
    static constexpr std::string_view kMacro[] = {"explicit_caller"};
    static constexpr std::string_view kRange[] = {"start", "stop", "step"};
    const auto among = [&](const auto& names) { return std::ranges::count(names, name) > 0; };
    if (among(kObject)) return true;
    switch (value.kind()) {
        case Kind::string:
            return among(kString) || among(kContainer);
        case Kind::dict:
            return name == "fromkeys" || among(kContainer);
        case Kind::list:
        case Kind::tuple:
            return among(kContainer);
        case Kind::boolean:
        case Kind::integer:
            return among(kInteger);
        case Kind::real:
            return among(kReal);
        case Kind::macro:
            return among(kMacro);
        case Kind::range:
            return among(kRange) || among(kContainer);
        case Kind::view:
            return name == "mapping" || name == "isdisjoint";
        case Kind::iterator:
            return name == "send" || name == "close" || name == "throw";
        case Kind::cycler:
            return name == "items" || name == "pos";
        case Kind::joiner:
            return name == "sep" || name == "used";
        default:
            return false;
    }
}

}  // namespace bifocal::jinja
