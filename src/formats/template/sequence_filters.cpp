// Filters over sequences. Those that are generators in Jinja are lazy here too: they have no
// length, are always true, and give each item once.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "formats/template/filters.h"
#include "formats/template/unicode_case.h"

namespace bifocal::jinja {
namespace {

struct Lazy : Iterator {
    using Iterator::Iterator;
    std::function<bool(Machine&, Value&)> produce;
    bool next(Machine& machine, Value& out) override {
        const Nested nested(machine);
        machine.step();
        return produce(machine, out);
    }
};

Value lazy(Machine& m, const Value& input, const Args& args,
           std::function<bool(Machine&, Value&)> produce) {
    auto iterator = std::make_shared<Lazy>(&m.meter, sizeof(Lazy) + 256);
    iterator->produce = std::move(produce);
    iterator->depth = input.depth();
    for (const Value& one : args.positional)
        iterator->depth = std::max(iterator->depth, one.depth());
    for (const auto& one : args.named)
        iterator->depth = std::max(iterator->depth, one.value.depth());
    ++iterator->depth;
    return m.iterator(std::move(iterator));
}

bool flag(const Value& value) {
    return !value.is_missing() && truthy(value);
}
bool given(const Value& value) {
    return !value.is_missing() && !value.is(Kind::none);
}

// "a.0.b" as the keys of three look-ups.
std::vector<Value> path_of(Machine& m, const Value& attribute) {
    if (!given(attribute)) return {};
    if (!attribute.is_string()) return {attribute};
    std::vector<Value> parts;
    const std::string& path = attribute.text().bytes;
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find('.', begin), path.size());
        const std::string part = path.substr(begin, end - begin);
        const bool digits =
            !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        if (digits && part.size() > 18) fail("index is too large");
        parts.push_back(digits ? Value::integer(std::stoll(part)) : m.string(part));
        begin = end + 1;
    }
    return parts;
}

Value follow(Machine& m, Value item, const std::vector<Value>& path,
             const Value& otherwise = Value::missing()) {
    for (const Value& part : path) {
        item = get_item(m, item, part);
        if (given(otherwise) && item.is(Kind::undefined)) item = otherwise;
    }
    return item;
}

Value ignore_case(Machine& m, const Value& value) {
    return value.is_string() ? m.string(to_lower(value.text())) : value;
}

// Stable order of `keys`; any comparison may fail.
std::vector<size_t> order_of(Machine& m, const std::vector<Value>& keys, bool reverse) {
    std::vector<size_t> order(keys.size()), spare(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto before = [&](size_t a, size_t b) {
        m.step_bytes(1024);
        return reverse ? less(m, keys[b], keys[a]) : less(m, keys[a], keys[b]);
    };
    for (size_t width = 1; width < keys.size(); width *= 2) {
        for (size_t begin = 0; begin < keys.size(); begin += 2 * width) {
            size_t i = begin, out = begin;
            const size_t middle = std::min(begin + width, keys.size());
            const size_t end = std::min(begin + 2 * width, keys.size());
            size_t j = middle;
            while (i < middle && j < end)
                spare[out++] = before(order[j], order[i]) ? order[j++] : order[i++];
            while (i < middle) spare[out++] = order[i++];
            while (j < end) spare[out++] = order[j++];
        }
        std::swap(order, spare);
    }
    return order;
}

Value length(Machine& m, const Value& v, Args& args) {
    bind(args, "length", {});
    const auto size = length_of(m, v);
    if (!size) fail(fmt::format("object of type '{}' has no length", type_name(v)));
    return Value::integer(*size);
}

Value list(Machine& m, const Value& v, Args& args) {
    bind(args, "list", {});
    return m.list(to_vector(m, v));
}

Value first(Machine& m, const Value& v, Args& args) {
    bind(args, "first", {});
    Value item;
    return iterate(m, v)->next(m, item) ? item
                                        : m.undefined("no first item, the sequence was empty");
}

bool is_reversible(const Value& v) {
    return v.is_sequence() || v.is_string() || v.is(Kind::dict) || v.is(Kind::range) ||
           v.is(Kind::view) || v.is(Kind::undefined);
}

Value last(Machine& m, const Value& v, Args& args) {
    bind(args, "last", {});
    if (!is_reversible(v)) fail(fmt::format("'{}' object is not reversible", type_name(v)));
    if (v.is_string() || v.is(Kind::range)) {
        if (*length_of(m, v) > 0) return get_item(m, v, Value::integer(-1));
    } else {
        const auto items = to_vector(m, v);
        if (!items.empty()) return items.back();
    }
    return m.undefined("no last item, the sequence was empty");
}

Value reverse(Machine& m, const Value& v, Args& args) {
    bind(args, "reverse", {});
    if (v.is_string()) {
        auto all = letters(v.text());
        std::ranges::reverse(all);
        Text text = from_letters(all);
        text.markup = v.text().markup;
        return m.string(std::move(text));
    }
    auto items = to_vector(m, v);
    if (!is_reversible(v)) {
        std::ranges::reverse(items);
        return m.list(std::move(items));
    }
    const Value rest = m.list(std::move(items));
    return lazy(m, rest, args, [rest, taken = size_t{0}](Machine&, Value& out) mutable {
        const auto& all = rest.items();
        if (taken >= all.size()) return false;
        out = all[all.size() - ++taken];
        return true;
    });
}

Value join(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "join", {"d", "attribute"});
    const Text separator = bound[0].is_missing() ? Text{} : to_text(m, bound[0]);
    const auto path = path_of(m, bound[1]);
    Text out;
    const auto source = iterate(m, v);
    bool any = false;
    for (Value item; source->next(m, item); any = true) {
        m.step_bytes(512);
        if (any) out.append(separator);
        append_text(m, out, given(bound[1]) ? follow(m, item, path) : item);
        if (out.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    }
    return m.string(std::move(out));
}

Value map(Machine& m, const Value& v, Args& args) {
    std::shared_ptr<Iterator> source;
    Filter filter = nullptr;
    std::vector<Value> path;
    Value otherwise = Value::missing();
    Args rest;
    return lazy(m, v, args, [=, call = args](Machine& machine, Value& out) mutable {
        if (!source) {
            if (!truthy(v)) return false;
            if (call.positional.empty()) {
                const auto bound = bind(call, "map", {"attribute", "default"}, 1);
                path = path_of(machine, bound[0]);
                otherwise = bound[1];
            } else {
                if (!call.positional[0].is_string()) fail("filter 'map' needs a name");
                const std::string& name = call.positional[0].text().bytes;
                filter = find_filter(name);
                if (!filter) fail(fmt::format("no filter named '{}'", name));
                rest = call;
                rest.positional.erase(rest.positional.begin());
            }
            source = iterate(machine, v);
        }
        Value item;
        if (!source->next(machine, item)) return false;
        Args copy = rest;
        out = filter ? filter(machine, item, copy) : follow(machine, item, path, otherwise);
        return true;
    });
}

// select, reject, selectattr, rejectattr.
Value choose(Machine& m, const Value& v, const Args& args, bool wanted, bool by_attribute) {
    std::shared_ptr<Iterator> source;
    Test test = nullptr;
    std::vector<Value> path;
    Args rest;
    return lazy(m, v, args, [=](Machine& machine, Value& out) mutable {
        if (!source) {
            if (!truthy(v)) return false;
            rest = args;
            if (by_attribute) {
                if (rest.positional.empty()) fail("the name of an attribute is missing");
                path = path_of(machine, rest.positional[0]);
                rest.positional.erase(rest.positional.begin());
            }
            if (!rest.positional.empty()) {
                if (!rest.positional[0].is_string()) fail("name of a test must be a string");
                const std::string& name = rest.positional[0].text().bytes;
                test = find_test(name);
                if (!test) fail(fmt::format("no test named '{}'", name));
                rest.positional.erase(rest.positional.begin());
            }
            source = iterate(machine, v);
        }
        while (source->next(machine, out)) {
            machine.step();
            const Value subject = by_attribute ? follow(machine, out, path) : out;
            Args copy = rest;
            if ((test ? test(machine, subject, copy) : truthy(subject)) == wanted) return true;
        }
        return false;
    });
}

Value select(Machine& m, const Value& v, Args& args) {
    return choose(m, v, args, true, false);
}
Value reject(Machine& m, const Value& v, Args& args) {
    return choose(m, v, args, false, false);
}
Value select_attr(Machine& m, const Value& v, Args& args) {
    return choose(m, v, args, true, true);
}
Value reject_attr(Machine& m, const Value& v, Args& args) {
    return choose(m, v, args, false, true);
}

Value items(Machine& m, const Value& v, Args& args) {
    bind(args, "items", {});
    std::shared_ptr<Iterator> source;
    return lazy(m, v, args, [=](Machine& machine, Value& out) mutable {
        if (v.is(Kind::undefined)) return false;
        if (!v.is(Kind::dict)) fail("filter 'items' needs a mapping");
        if (!source) {
            Args none;
            source = iterate(machine, find_method(Kind::dict, "items")(machine, v, none));
        }
        return source->next(machine, out);
    });
}

Value sort(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "sort", {"reverse", "case_sensitive", "attribute"});
    std::vector<std::vector<Value>> paths;
    if (bound[2].is_string()) {
        const std::string& all = bound[2].text().bytes;
        for (size_t begin = 0; begin <= all.size();) {
            const size_t end = std::min(all.find(',', begin), all.size());
            paths.push_back(path_of(m, m.string(all.substr(begin, end - begin))));
            begin = end + 1;
        }
    } else {
        paths.push_back(path_of(m, bound[2]));
    }
    const auto values = to_vector(m, v);
    std::vector<Value> keys;
    for (const Value& item : values) {
        std::vector<Value> key;
        for (const auto& path : paths) {
            const Value part = follow(m, item, path);
            key.push_back(flag(bound[1]) ? part : ignore_case(m, part));
        }
        keys.push_back(m.list(std::move(key)));
    }
    std::vector<Value> sorted;
    for (const size_t i : order_of(m, keys, flag(bound[0]))) sorted.push_back(values[i]);
    return m.list(std::move(sorted));
}

Value dict_sort(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "dictsort", {"case_sensitive", "by", "reverse"});
    size_t part = 0;
    if (!bound[1].is_missing()) {
        const bool known = bound[1].is_string() &&
                           (bound[1].text().bytes == "key" || bound[1].text().bytes == "value");
        if (!known) fail("filter 'dictsort' sorts by 'key' or 'value'");
        part = bound[1].text().bytes == "value";
    }
    if (v.is(Kind::undefined)) fail(v.get<UndefinedObject>().message);
    if (!v.is(Kind::dict)) fail("filter 'dictsort' needs a mapping");
    std::vector<Value> pairs, keys;
    for (const auto& [key, value] : v.dict().entries) {
        pairs.push_back(m.tuple({key, value}));
        const Value& by = part ? value : key;
        keys.push_back(flag(bound[0]) ? by : ignore_case(m, by));
    }
    std::vector<Value> sorted;
    for (const size_t i : order_of(m, keys, flag(bound[2]))) sorted.push_back(pairs[i]);
    return m.list(std::move(sorted));
}

Value unique(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "unique", {"case_sensitive", "attribute"});
    const auto path = path_of(m, bound[1]);
    const bool exact = flag(bound[0]);
    std::shared_ptr<Iterator> source;
    auto seen = m.new_dict();
    return lazy(m, v, args, [=](Machine& machine, Value& out) mutable {
        if (!source) source = iterate(machine, v);
        while (source->next(machine, out)) {
            machine.step();
            Value key = follow(machine, out, path);
            if (!exact) key = ignore_case(machine, key);
            if (find(machine, *seen, key)) continue;
            insert(machine, *seen, key, Value::none());
            return true;
        }
        return false;
    });
}

Value extreme(Machine& m, const Value& v, const Args& args, bool largest) {
    const auto bound = bind(args, largest ? "max" : "min", {"case_sensitive", "attribute"});
    const auto path = path_of(m, bound[1]);
    const auto key_of = [&](const Value& item) {
        const Value key = follow(m, item, path);
        return flag(bound[0]) ? key : ignore_case(m, key);
    };
    const auto source = iterate(m, v);
    Value best, item;
    if (!source->next(m, best)) return m.undefined("no aggregated item, the sequence was empty");
    for (Value best_key = key_of(best); source->next(m, item);) {
        m.step();
        Value key = key_of(item);
        if (!(largest ? less(m, best_key, key) : less(m, key, best_key))) continue;
        best = item;
        best_key = std::move(key);
    }
    return best;
}

Value max(Machine& m, const Value& v, Args& args) {
    return extreme(m, v, args, true);
}
Value min(Machine& m, const Value& v, Args& args) {
    return extreme(m, v, args, false);
}

Value sum(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "sum", {"attribute", "start"});
    const auto path = path_of(m, bound[0]);
    Value total = bound[1].is_missing() ? Value::integer(0) : bound[1];
    if (total.is_string()) fail("filter 'sum' cannot add strings");
    const auto source = iterate(m, v);
    for (Value item; source->next(m, item);) {
        m.step();
        total = add(m, total, follow(m, item, path));
    }
    return total;
}

Value batch(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "batch", {"linecount", "fill_with"}, 1);
    const Value &count = bound[0], &fill = bound[1];
    std::shared_ptr<Iterator> source;
    Value ahead = Value::missing();
    return lazy(m, v, args, [=](Machine& machine, Value& out) mutable {
        const bool counted = count.is_number();
        if (!source) source = iterate(machine, v);
        std::vector<Value> row;
        if (!ahead.is_missing()) row.push_back(std::exchange(ahead, Value::missing()));
        for (Value item; source->next(machine, item);) {
            machine.step();
            if (counted &&
                equal(machine, count, Value::integer(static_cast<int64_t>(row.size())))) {
                ahead = item;
                out = machine.list(std::move(row));
                return true;
            }
            row.push_back(item);
        }
        if (row.empty()) return false;
        if (given(fill)) {
            const int64_t width = index_argument(count, "linecount");
            if (width > kMaxRange) fail("linecount of filter 'batch' is too large");
            while (static_cast<int64_t>(row.size()) < width) row.push_back(fill);
        }
        out = machine.list(std::move(row));
        return true;
    });
}

Value slice(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "slice", {"slices", "fill_with"}, 1);
    const Value &slices = bound[0], &fill = bound[1];
    Value all = Value::missing();
    int64_t number = 0;
    size_t at = 0;
    return lazy(m, v, args, [=](Machine& machine, Value& out) mutable {
        if (all.is_missing()) all = machine.list(to_vector(machine, v));
        const int64_t count = index_argument(slices, "slices");
        if (count == 0) fail("integer division or modulo by zero");
        if (number >= count) return false;
        const auto size = static_cast<int64_t>(all.items().size());
        const bool longer = number < size % count;
        std::vector<Value> part;
        for (int64_t i = 0; i < size / count + longer; ++i) part.push_back(all.items()[at++]);
        if (given(fill) && !longer) part.push_back(fill);
        ++number;
        out = machine.list(std::move(part));
        return true;
    });
}

Value group_by(Machine& m, const Value& v, Args& args) {
    const auto bound = bind(args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
    const auto path = path_of(m, bound[0]);
    const auto values = to_vector(m, v);
    std::vector<Value> keys, groups;
    for (const Value& item : values) {
        const Value key = follow(m, item, path, bound[1]);
        keys.push_back(flag(bound[2]) ? key : ignore_case(m, key));
    }
    const auto order = order_of(m, keys, false);
    for (size_t i = 0; i < order.size();) {
        const size_t begin = i;
        std::vector<Value> members;
        for (; i < order.size() && equal(m, keys[order[i]], keys[order[begin]]); ++i)
            members.push_back(values[order[i]]);
        if (members.empty()) members.push_back(values[order[i++]]);  // NaN is no group with itself
        const Value key =
            flag(bound[2]) ? keys[order[begin]] : follow(m, members[0], path, bound[1]);
        Value group = m.tuple({key, m.list(std::move(members))});
        group.get<ListObject>().group = true;
        groups.push_back(std::move(group));
    }
    return m.list(std::move(groups));
}

}  // namespace

const std::unordered_map<std::string_view, Filter>& sequence_filters() {
    static const std::unordered_map<std::string_view, Filter> kFilters = {
        {"batch", batch},     {"count", length},     {"dictsort", dict_sort},
        {"first", first},     {"groupby", group_by}, {"items", items},
        {"join", join},       {"last", last},        {"length", length},
        {"list", list},       {"map", map},          {"max", max},
        {"min", min},         {"reject", reject},    {"rejectattr", reject_attr},
        {"reverse", reverse}, {"select", select},    {"selectattr", select_attr},
        {"slice", slice},     {"sort", sort},        {"sum", sum},
        {"unique", unique},
    };
    return kFilters;
}

}  // namespace bifocal::jinja
