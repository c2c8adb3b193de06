// Functions that a template finds without being given them.
#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <ctime>

#include "formats/template/machine.h"

namespace bifocal::jinja {
namespace {

Value range(Machine& m, Args& args) {
    if (!args.named.empty()) fail("range() takes no keyword arguments");
    const auto& a = args.positional;
    if (a.empty() || a.size() > 3) fail("range() takes one to three arguments");
    const auto bound = [&](size_t i) {
        const int64_t n = index_argument(a[i], "an argument of range()");
        if (n > kMaxRangeBound || n < -kMaxRangeBound) fail("range() bound is too large");
        return n;
    };
    const int64_t start = a.size() > 1 ? bound(0) : 0;
    const int64_t stop = bound(a.size() > 1 ? 1 : 0);
    const int64_t step = a.size() > 2 ? bound(2) : 1;
    if (step == 0) fail("step of range() cannot be zero");
    Value value = m.range(start, stop, step);
    if (value.get<RangeObject>().size() > kMaxRange) fail("range() is too long: limit of 100,000");
    return value;
}

// What dict() and namespace() make of their arguments.
std::shared_ptr<DictObject> to_dict(Machine& m, const Args& args, std::string_view function) {
    auto dict = m.new_dict();
    if (args.positional.size() > 1) fail(fmt::format("{}() takes at most 1 argument", function));
    if (!args.positional.empty()) {
        const Value& source = args.positional[0];
        if (source.is(Kind::dict)) {
            for (const auto& [key, value] : source.dict().entries) insert(m, *dict, key, value);
        } else {
            for (const Value& pair : to_vector(m, source)) {
                const std::vector<Value> both = to_vector(m, pair);
                if (both.size() != 2) fail(fmt::format("{}() needs pairs", function));
                insert(m, *dict, both[0], both[1]);
            }
        }
    }
    for (const auto& [name, value, user] : args.named)
        insert(m, *dict, m.string(name, user), value);
    return dict;
}

Value dict(Machine& m, Args& args) {
    return m.dict(to_dict(m, args, "dict"));
}

Value name_space(Machine& m, Args& args) {
    auto space = m.new_namespace();
    const auto given = to_dict(m, args, "namespace");
    for (const auto& [key, value] : given->entries) {
        if (!key.is_string()) continue;  // cannot be asked for
        if (key.text().bytes.starts_with('_'))
            fail("attributes of a namespace cannot begin with an underscore");
        space->set(key.text().bytes, value);
    }
    return Value::object(Kind::name_space, std::move(space));
}

Value raise_exception(Machine& m, Args& args) {
    const auto bound = bind(args, "raise_exception", {"message"}, 1);
    Failure failure{to_text(m, bound[0]).bytes};
    failure.raised = true;
    throw failure;
}

Value strftime_now(Machine& m, Args& args) {
    const auto bound = bind(args, "strftime_now", {"format"}, 1);
    if (!bound[0].is_string()) fail("strftime_now() needs a string");
    const Text& given = bound[0].text();
    if (given.bytes.size() > 1024) fail("format of strftime_now() is too long");
    if (given.bytes.find('\0') != std::string::npos) fail("format of strftime_now() contains NUL");
    // A date without zone has no %z and no %Z, and no part of a second here.
    std::string format;
    for (size_t i = 0; i < given.bytes.size(); ++i) {
        if (given.bytes[i] != '%' || i + 1 == given.bytes.size()) {
            format += given.bytes[i];
            continue;
        }
        const char directive = given.bytes[++i];
        if (directive == 'z' || directive == 'Z') continue;
        if (directive == 'f') {
            format += "000000";
        } else {
            format += '%';
            format += directive;
        }
    }
    std::tm now = m.now();
    static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
    std::string out(64 * 1024, '\0');
    // The mark tells an empty result from one that does not fit.
    const size_t size = strftime_l(out.data(), out.size(), (format + "|").c_str(), &now, kPlain);
    if (size == 0) fail("result of strftime_now() is too long");
    out.resize(size - 1);
    return m.string(out, given.any_user());
}

Value cycler(Machine& m, Args& args) {
    if (args.positional.empty() || !args.named.empty()) fail("cycler() needs items");
    auto cycler =
        std::make_shared<CyclerObject>(&m.meter, 64 + args.positional.size() * sizeof(Value));
    for (const Value& item : args.positional)
        cycler->depth = std::max(cycler->depth, item.depth() + 1);
    if (cycler->depth > kMaxValueDepth) fail("value is nested too deeply");
    cycler->items = std::move(args.positional);
    return Value::object(Kind::cycler, std::move(cycler));
}

Value joiner(Machine& m, Args& args) {
    const auto bound = bind(args, "joiner", {"sep"});
    auto joiner = std::make_shared<JoinerObject>(&m.meter, sizeof(JoinerObject));
    joiner->separator = bound[0].is_missing() ? m.string(", ") : bound[0];
    joiner->depth = joiner->separator.depth() + 1;
    if (joiner->depth > kMaxValueDepth) fail("value is nested too deeply");
    return Value::object(Kind::joiner, std::move(joiner));
}

}  // namespace

const std::unordered_map<std::string_view, Function>& global_functions() {
    static const std::unordered_map<std::string_view, Function> kFunctions = {
        {"range", range},
        {"dict", dict},
        {"namespace", name_space},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {"cycler", cycler},
        {"joiner", joiner},
    };
    return kFunctions;
}

}  // namespace bifocal::jinja
