// What one rendering owns: its limits, its clock, and the objects whose life ends with it.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/template/value.h"

namespace bifocal::jinja {

inline constexpr int64_t kMaxSteps = 1'000'000;
inline constexpr int kMaxDepth = 100;            // of macro calls and recursive loops
inline constexpr int kMaxNesting = 1000;         // of evaluations inside each other
inline constexpr uint32_t kMaxValueDepth = 200;  // of lists in lists
inline constexpr size_t kMaxOutputBytes = size_t{16} << 20;
inline constexpr size_t kMaxStringBytes = size_t{16} << 20;
inline constexpr size_t kMaxLiveBytes = size_t{128} << 20;
inline constexpr int64_t kMaxRange = 100'000;
inline constexpr int64_t kMaxRangeBound = int64_t{1} << 60;

// Thrown inside this folder only; ChatTemplate turns it into an Error with line and column.
struct Failure {
    std::string what;
    size_t offset = std::string::npos;  // bytes into the source; npos: where the machine stands
    bool raised = false;                // by the template itself, with raise_exception
};

[[noreturn]] void fail(std::string what);

// Variables of one frame. Slots are resolved when the template is compiled (scopes.h).
struct Scope {
    std::vector<Value> slots;
    Scope* parent = nullptr;
};

class Machine {
  public:
    explicit Machine(std::function<std::tm()> clock) : clock_(std::move(clock)) {}
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
    ~Machine();

    void step(int64_t count = 1);
    void step_bytes(size_t bytes);  // 4 KiB of work are one step
    // Looking for `needle` in `text`, which costs their product at worst.
    void step_search(std::string_view text, std::string_view needle);
    void check_memory() const;

    Value string(Text text);
    Value string(std::string_view bytes, bool user = false);
    Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
    Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
    Value sequence(Kind kind, std::vector<Value> items);
    std::shared_ptr<DictObject> new_dict() { return std::make_shared<DictObject>(&meter); }
    Value dict(std::shared_ptr<DictObject> dict);
    Value undefined(const std::string& why);
    Value range(int64_t start, int64_t stop, int64_t step);
    Value iterator(std::shared_ptr<Iterator> iterator);
    std::shared_ptr<NamespaceObject> new_namespace();
    Scope* keep(std::unique_ptr<Scope> scope);
    void keep(std::shared_ptr<LoopObject> loop) { loops_.push_back(std::move(loop)); }

    std::tm now() const { return clock_(); }

    // Declared first: every object reports to it when it dies.
    Meter meter;
    size_t at = 0;                                     // offset of what is being evaluated
    std::unordered_map<std::string, Value> variables;  // inputs over globals
    // Runs macros and recursive loops; set by the interpreter.
    std::function<Value(const Value& callee, Args& args)> call_template_code;
    int nesting = 0;

  private:
    std::function<std::tm()> clock_;
    int64_t steps_ = 0;
    size_t bytes_ = 0;                                          // of work that is no whole step yet
    std::vector<std::shared_ptr<NamespaceObject>> namespaces_;  // they may hold each other
    std::vector<std::unique_ptr<Scope>> scopes_;
    std::vector<std::shared_ptr<LoopObject>> loops_;  // that remember values: perhaps themselves
};

// Counts one level of recursion over values or nodes.
class Nested {
  public:
    explicit Nested(Machine& machine) : machine_(machine) {
        if (++machine_.nesting > kMaxNesting) {
            --machine_.nesting;
            fail("expressions, values or calls are nested too deeply");
        }
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --machine_.nesting; }

  private:
    Machine& machine_;
};

std::shared_ptr<Iterator> iterate(Machine& machine, const Value& value);
std::vector<Value> to_vector(Machine& machine, const Value& value);
bool contains(Machine& machine, const Value& container, const Value& item);

// Operators and look-ups (operators.cpp, attributes.cpp).
Value add(Machine& machine, const Value& a, const Value& b);
Value arithmetic(Machine& machine, std::string_view op, const Value& a, const Value& b);
Value negate(Machine& machine, const Value& a);
Value get_attribute(Machine& machine, const Value& object, const std::string& name);
Value get_item(Machine& machine, const Value& object, const Value& key);
Value get_slice(Machine& machine, const Value& object, const Value& start, const Value& stop,
                const Value& step);
Value call(Machine& machine, const Value& callee, Args& args);
Text escape_html(const Text& text);
Text format_percent(Machine& machine, const Text& format, const Value& args);

// Tables of names (filters.cpp, tests.cpp, functions.cpp, methods_*.cpp).
using Filter = Value (*)(Machine&, const Value& input, Args&);
using Test = bool (*)(Machine&, const Value& input, Args&);
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
const std::unordered_map<std::string_view, Function>& global_functions();
// Null when values of this kind have no such method; `known` says that Python's have one.
Method find_method(Kind kind, std::string_view name);
bool is_python_attribute(const Value& value, std::string_view name);

// Binds arguments to parameter names as Python does; absent ones stay missing.
std::vector<Value> bind(const Args& args, std::string_view function,
                        std::initializer_list<std::string_view> parameters, size_t required = 0);
int64_t index_argument(const Value& value, std::string_view what);

}  // namespace bifocal::jinja
