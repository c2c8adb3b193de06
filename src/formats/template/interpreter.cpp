#include "formats/template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

namespace bifocal::jinja {
namespace {

enum class Flow { normal, leave_loop, next_round };

class Interpreter {
  public:
    explicit Interpreter(Machine& machine) : m_(machine) {
        m_.call_template_code = [this](const Value& callee, Args& args) {
            return callee.is(Kind::loop) ? call_loop(callee.get<LoopObject>(), args)
                                         : call_macro(callee.get<MacroObject>(), args);
        };
    }

    Text render(const Template& tree) {
        Text output;
        out_ = &output;
        FrameScope scope(*this, tree.frame, nullptr);
        scope.enter();
        body(tree.body, *scope);
        return output;
    }

    Value eval(const Expr& node, Scope& scope);
    void assign(const Expr& target, Value value, Scope& scope);

    // The variables of one entry into a frame. They stay behind when something may refer to them.
    class FrameScope {
      public:
        FrameScope(Interpreter& owner, const Frame& frame, Scope* parent)
            : owner_(owner), frame_(frame) {
            if (frame.captured) {
                auto kept = std::make_unique<Scope>();
                kept->slots.assign(frame.slots.size(), Value::missing());
                scope_ = owner.m_.keep(std::move(kept));
            } else {
                local_.slots.assign(frame.slots.size(), Value::missing());
                scope_ = &local_;
            }
            scope_->parent = parent;
        }
        FrameScope(const FrameScope&) = delete;
        FrameScope& operator=(const FrameScope&) = delete;

        // Gives every variable its first value; a loop does so in every round.
        void enter() {
            for (size_t i = 0; i < frame_.slots.size(); ++i) {
                const FrameSlot& slot = frame_.slots[i];
                Value& value = scope_->slots[i];
                switch (slot.load) {
                    case Load::parameter:
                        break;
                    case Load::unset:
                        value = Value::missing();
                        break;
                    case Load::alias:
                        value = variable(*scope_, slot.outer);
                        break;
                    case Load::resolve: {
                        const auto found = owner_.m_.variables.find(slot.name);
                        value =
                            found == owner_.m_.variables.end() ? Value::missing() : found->second;
                    }
                }
            }
        }
        Scope& operator*() { return *scope_; }
        Scope* operator->() { return scope_; }

      private:
        Interpreter& owner_;
        const Frame& frame_;
        Scope local_;
        Scope* scope_;
    };

  private:
    // Collects output apart, for macros and blocks.
    class Capture {
      public:
        explicit Capture(Interpreter& owner)
            : owner_(owner), out_(std::exchange(owner.out_, &text)) {}
        Capture(const Capture&) = delete;
        Capture& operator=(const Capture&) = delete;
        ~Capture() { close(); }
        Value take() {
            close();
            return owner_.m_.string(std::move(text));
        }
        Text text;

      private:
        void close() {
            if (!out_) return;
            owner_.m_.meter.live -= text.bytes.size();
            owner_.out_ = std::exchange(out_, nullptr);
        }
        Interpreter& owner_;
        Text* out_;
    };

    // Items of a loop that pass its condition, tested as the loop comes to them.
    struct Filtered : Iterator {
        using Iterator::Iterator;
        Interpreter* owner = nullptr;
        const Stmt* loop = nullptr;
        std::shared_ptr<Iterator> source;
        std::unique_ptr<FrameScope> scope;
        bool next(Machine& machine, Value& out) override {
            while (source && source->next(machine, out)) {
                machine.step();
                scope->enter();
                owner->assign(*loop->test_target, out, **scope);
                if (truthy(owner->eval(*loop->condition, **scope))) return true;
            }
            return false;
        }
    };

    static Value& variable(Scope& scope, const VariableRef& ref) {
        Scope* at = &scope;
        for (int i = 0; i < ref.hops; ++i) at = at->parent;
        return at->slots[static_cast<size_t>(ref.slot)];
    }

    void emit(const Text& text) {
        if (out_->bytes.size() + text.bytes.size() > kMaxOutputBytes)
            fail("output is too long: limit of 16 MiB");
        out_->append(text);
        m_.meter.live += text.bytes.size();
        m_.step_bytes(text.bytes.size());
        m_.check_memory();
    }

    Flow body(const Body& statements, Scope& scope) {
        for (const auto& one : statements) {
            const Flow flow = stmt(*one, scope);
            if (flow != Flow::normal) return flow;
        }
        return Flow::normal;
    }

    Flow stmt(const Stmt& node, Scope& scope);
    Flow if_else(const Stmt& node, Scope& scope);
    Flow for_in(const Stmt& node, Scope& scope);
    Flow run_loop(const Stmt& node, Scope& outer, const Value& iterable, int64_t depth);
    Flow with(const Stmt& node, Scope& scope);
    Flow captured(const Stmt& node, Scope& scope, Value& value);
    Flow set_block(const Stmt& node, Scope& scope);
    Flow filter_block(const Stmt& node, Scope& scope);
    void call_block(const Stmt& node, Scope& scope);
    Value call_macro(const MacroObject& macro, Args& args);
    Value call_loop(const LoopObject& loop, Args& args);
    void enter_macro(const MacroObject& macro, Args& args, Scope& scope);

    Value compare(const Expr& node, Scope& scope);
    Value conditional(const Expr& node, Scope& scope);
    Value filter_chain(const Expr& node, const Value& input, Scope& scope);
    Value apply_filter(const Expr& node, const Value& input, Scope& scope);
    Value children(const Expr& node, Scope& scope);
    Value dict(const Expr& node, Scope& scope);
    Value slice(const Expr& node, Scope& scope);
    Value concat(const Expr& node, Scope& scope);
    Value call_expr(const Expr& node, Scope& scope);
    Args arguments(const CallArgs& args, Scope& scope);
    Value macro_value(const Stmt& node, Scope& scope);

    Machine& m_;
    Text* out_ = nullptr;
    int depth_ = 0;
};

Flow Interpreter::stmt(const Stmt& node, Scope& scope) {
    const Nested nested(m_);
    m_.at = node.offset;
    m_.step();
    switch (node.kind) {
        case StmtKind::text:
            emit(node.text);
            break;
        case StmtKind::print:
            for (const auto& one : node.expressions) {
                const Value value = eval(*one, scope);
                m_.at = node.offset;
                value.is_string() ? emit(value.text()) : emit(to_text(m_, value));
            }
            break;
        case StmtKind::if_else:
            return if_else(node, scope);
        case StmtKind::for_in:
            return for_in(node, scope);
        case StmtKind::set: {
            Value value = eval(*node.expressions[0], scope);
            m_.at = node.offset;
            assign(*node.target, std::move(value), scope);
            break;
        }
        case StmtKind::set_block:
            return set_block(node, scope);
        case StmtKind::macro:
            variable(scope, node.variable) = macro_value(node, scope);
            break;
        case StmtKind::call_block:
            call_block(node, scope);
            break;
        case StmtKind::filter_block:
            return filter_block(node, scope);
        case StmtKind::with:
            return with(node, scope);
        case StmtKind::generation: {
            FrameScope own(*this, node.frame, &scope);
            MacroObject macro;
            macro.definition = &node;
            Args none;
            own.enter();
            enter_macro(macro, none, *own);
            body(node.body, *own);
            break;
        }
        case StmtKind::loop_break:
            return Flow::leave_loop;
        case StmtKind::loop_continue:
            return Flow::next_round;
    }
    return Flow::normal;
}

Flow Interpreter::if_else(const Stmt& node, Scope& scope) {
    for (const Branch& branch : node.branches) {
        if (!branch.condition || truthy(eval(*branch.condition, scope)))
            return body(branch.body, scope);
    }
    return Flow::normal;
}

Flow Interpreter::for_in(const Stmt& node, Scope& scope) {
    const Value iterable = eval(*node.expressions[0], scope);
    m_.at = node.offset;
    if (!node.recursive) return run_loop(node, scope, iterable, 0);
    run_loop(node, scope, iterable, 0);
    return Flow::normal;
}

Flow Interpreter::run_loop(const Stmt& node, Scope& outer, const Value& iterable, int64_t depth) {
    FrameScope scope(*this, node.frame, &outer);
    std::shared_ptr<Iterator> source = iterate(m_, iterable);
    std::shared_ptr<Filtered> filtered;
    if (node.condition) {
        filtered = std::make_shared<Filtered>(&m_.meter, sizeof(Filtered));
        filtered->owner = this;
        filtered->loop = &node;
        filtered->source = source;
        filtered->scope = std::make_unique<FrameScope>(*this, node.test_frame, &outer);
        source = filtered;
    }
    std::shared_ptr<LoopObject> loop;
    if (node.uses_loop) {
        loop = std::make_shared<LoopObject>(&m_.meter, sizeof(LoopObject));
        loop->iterable = node.condition ? m_.iterator(filtered) : iterable;
        loop->source = source;
        loop->depth0 = depth;
        if (node.recursive) loop->recursive = &node;
        loop->outer = &outer;
    }
    bool finished_a_round = false;  // one cut short by `continue` does not count
    for (Value item;;) {
        m_.at = node.offset;
        if (!(loop ? loop->advance(m_, item) : source->next(m_, item))) break;
        m_.step();
        scope.enter();
        if (loop) scope->slots[0] = Value::object(Kind::loop, loop);
        m_.at = node.offset;
        assign(*node.target, std::move(item), *scope);
        const Flow flow = body(node.body, *scope);
        if (flow == Flow::leave_loop) break;
        if (flow == Flow::normal) finished_a_round = true;
    }
    std::ranges::fill(scope->slots, Value::missing());
    // The loop variable may outlive the loop; the frames its condition reads may not.
    if (filtered) {
        filtered->source.reset();
        filtered->scope.reset();
    }
    if (finished_a_round || node.otherwise.empty()) return Flow::normal;
    FrameScope otherwise(*this, node.else_frame, &outer);
    otherwise.enter();
    return body(node.otherwise, *otherwise);
}

Flow Interpreter::with(const Stmt& node, Scope& scope) {
    FrameScope own(*this, node.frame, &scope);
    own.enter();
    for (size_t i = 0; i < node.targets.size(); ++i)
        assign(*node.targets[i], eval(*node.expressions[i], scope), *own);
    return body(node.body, *own);
}

// What the body prints, as a value.
Flow Interpreter::captured(const Stmt& node, Scope& scope, Value& value) {
    Capture capture(*this);
    const Flow flow = body(node.body, scope);
    if (flow == Flow::normal) value = capture.take();
    return flow;
}

Flow Interpreter::set_block(const Stmt& node, Scope& scope) {
    FrameScope own(*this, node.frame, &scope);
    own.enter();
    Value value;
    if (const Flow flow = captured(node, *own, value); flow != Flow::normal) return flow;
    if (!node.expressions.empty()) value = filter_chain(*node.expressions[0], value, *own);
    assign(*node.target, std::move(value), scope);
    return Flow::normal;
}

Flow Interpreter::filter_block(const Stmt& node, Scope& scope) {
    FrameScope own(*this, node.frame, &scope);
    own.enter();
    Value value;
    if (const Flow flow = captured(node, *own, value); flow != Flow::normal) return flow;
    value = filter_chain(*node.expressions[0], value, *own);
    if (!value.is_string())
        fail(fmt::format("filter block gives a {}, not a string", type_name(value)));
    emit(value.text());
    return Flow::normal;
}

Value Interpreter::macro_value(const Stmt& node, Scope& scope) {
    auto macro = std::make_shared<MacroObject>(&m_.meter, sizeof(MacroObject));
    macro->definition = &node;
    macro->closure = &scope;
    return Value::object(Kind::macro, std::move(macro));
}

void Interpreter::call_block(const Stmt& node, Scope& scope) {
    const Expr& expr = *node.expressions[0];
    const Value callee = eval(*expr.children[0], scope);
    Args args = arguments(expr.args, scope);
    args.named.push_back({"caller", macro_value(node, scope)});
    m_.at = expr.offset;
    const Value value = call(m_, callee, args);
    if (!value.is_string())
        fail(fmt::format("call block gives a {}, not a string", type_name(value)));
    emit(value.text());
}

Value Interpreter::call_macro(const MacroObject& macro, Args& args) {
    if (depth_ >= kMaxDepth) fail("macros call each other too deeply: limit of 100");
    const Stmt& node = *macro.definition;
    const size_t called_at = m_.at;
    ++depth_;
    FrameScope scope(*this, node.frame, macro.closure);
    scope.enter();
    enter_macro(macro, args, *scope);
    Capture capture(*this);
    body(node.body, *scope);
    --depth_;
    m_.at = called_at;
    return capture.take();
}

// Binds arguments: positions, then names, then defaults; what is left goes to varargs and kwargs.
void Interpreter::enter_macro(const MacroObject& macro, Args& args, Scope& scope) {
    const Stmt& node = *macro.definition;
    const size_t count = node.parameters.size();
    const auto pop_named = [&](std::string_view name) {
        for (auto it = args.named.begin(); it != args.named.end(); ++it) {
            if (it->name != name) continue;
            Value value = std::move(it->value);
            args.named.erase(it);
            return value;
        }
        return Value::missing();
    };
    bool found_caller = false;
    std::fill_n(scope.slots.begin(), count, Value::missing());
    for (size_t i = 0; i < count; ++i) {
        if (i < args.positional.size()) {
            scope.slots[i] = args.positional[i];
        } else {
            scope.slots[i] = pop_named(node.parameters[i]);
            found_caller |= node.parameters[i] == "caller";
        }
    }
    if (args.positional.size() >= count)
        found_caller = std::ranges::count(node.parameters, "caller") > 0;
    size_t extra = count;
    const bool own_caller = std::ranges::count(node.parameters, "caller") > 0;
    if (node.takes_caller && !own_caller) {
        Value caller = found_caller ? Value::missing() : pop_named("caller");
        if (caller.is_missing() || caller.is(Kind::none))
            caller = m_.undefined("no caller defined");
        scope.slots[extra++] = std::move(caller);
    }
    if (node.takes_kwargs) {
        auto kwargs = m_.new_dict();
        for (auto& [name, value, user] : args.named)
            insert(m_, *kwargs, m_.string(name, user), value);
        scope.slots[extra++] = m_.dict(std::move(kwargs));
    } else if (!args.named.empty()) {
        fail(fmt::format("macro '{}' takes no keyword argument '{}'", node.name,
                         args.named[0].name));
    }
    if (node.takes_varargs) {
        const auto begin = args.positional.begin() +
                           static_cast<std::ptrdiff_t>(std::min(count, args.positional.size()));
        scope.slots[extra++] = m_.tuple({begin, args.positional.end()});
    } else if (args.positional.size() > count) {
        fail(fmt::format("macro '{}' takes not more than {} arguments", node.name, count));
    }
    const size_t required = count - node.defaults.size();
    for (size_t i = 0; i < count; ++i) {
        if (!scope.slots[i].is_missing()) continue;
        scope.slots[i] =
            i >= required
                ? eval(*node.defaults[i - required], scope)
                : m_.undefined(fmt::format("parameter '{}' was not provided", node.parameters[i]));
    }
}

Value Interpreter::call_loop(const LoopObject& loop, Args& args) {
    if (!loop.recursive) fail("the loop has no 'recursive' and cannot be called");
    const std::vector<Value> bound = bind(args, "loop", {"iterable"}, 1);
    if (depth_ >= kMaxDepth) fail("loops call themselves too deeply: limit of 100");
    const int64_t depth = loop.depth0 + 1;
    const Stmt& node = *loop.recursive;
    const size_t called_at = m_.at;
    ++depth_;
    Capture capture(*this);
    run_loop(node, *loop.outer, bound[0], depth);
    --depth_;
    m_.at = called_at;
    return capture.take();
}

void Interpreter::assign(const Expr& target, Value value, Scope& scope) {
    switch (target.kind) {
        case ExprKind::name:
            variable(scope, target.variable) = std::move(value);
            return;
        case ExprKind::namespace_field: {
            const Value& space = variable(scope, target.variable);
            if (!space.is(Kind::name_space))
                fail("cannot assign an attribute of something that is no namespace");
            if (target.text.starts_with('_'))
                fail("attributes of a namespace cannot begin with an underscore");
            space.get<NamespaceObject>().set(target.text, std::move(value));
            m_.check_memory();
            return;
        }
        default: {
            const std::vector<Value> items = to_vector(m_, value);
            if (items.size() != target.children.size()) {
                fail(fmt::format("cannot unpack: expected {} values, got {}",
                                 target.children.size(), items.size()));
            }
            for (size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i], scope);
        }
    }
}

Value Interpreter::eval(const Expr& node, Scope& scope) {
    if (node.kind == ExprKind::constant) return node.value;
    m_.at = node.offset;
    if (node.kind == ExprKind::name) {
        const Value& value = variable(scope, node.variable);
        return value.is_missing() ? m_.undefined(fmt::format("'{}' is undefined", node.name))
                                  : value;
    }
    const Nested nested(m_);
    m_.step_bytes(512);
    switch (node.kind) {
        case ExprKind::tuple:
        case ExprKind::list:
            return children(node, scope);
        case ExprKind::dict:
            return dict(node, scope);
        case ExprKind::attribute: {
            const Value object = eval(*node.children[0], scope);
            m_.at = node.offset;
            return get_attribute(m_, object, node.text);
        }
        case ExprKind::item: {
            const Value object = eval(*node.children[0], scope);
            const Value key = eval(*node.children[1], scope);
            m_.at = node.offset;
            return get_item(m_, object, key);
        }
        case ExprKind::slice:
            return slice(node, scope);
        case ExprKind::call:
            return call_expr(node, scope);
        case ExprKind::filter:
            return apply_filter(node, eval(*node.children[0], scope), scope);
        case ExprKind::test: {
            const Value value = eval(*node.children[0], scope);
            Args args = arguments(node.args, scope);
            m_.at = node.offset;
            m_.step();
            return Value::boolean(node.test(m_, value, args));
        }
        case ExprKind::compare:
            return compare(node, scope);
        case ExprKind::concat:
            return concat(node, scope);
        case ExprKind::binary: {
            const Value a = eval(*node.children[0], scope);
            const Value b = eval(*node.children[1], scope);
            m_.at = node.offset;
            return arithmetic(m_, node.text, a, b);
        }
        case ExprKind::logical_and: {
            Value a = eval(*node.children[0], scope);
            return truthy(a) ? eval(*node.children[1], scope) : a;
        }
        case ExprKind::logical_or: {
            Value a = eval(*node.children[0], scope);
            return truthy(a) ? a : eval(*node.children[1], scope);
        }
        case ExprKind::logical_not:
            return Value::boolean(!truthy(eval(*node.children[0], scope)));
        case ExprKind::negative:
        case ExprKind::positive: {
            const Value a = eval(*node.children[0], scope);
            m_.at = node.offset;
            if (node.kind == ExprKind::negative) return negate(m_, a);
            return arithmetic(m_, "-", a, Value::integer(0));
        }
        case ExprKind::conditional:
            return conditional(node, scope);
        default:
            fail("a target cannot be read");
    }
}

Value Interpreter::children(const Expr& node, Scope& scope) {
    std::vector<Value> items;
    items.reserve(node.children.size());
    for (const auto& child : node.children) items.push_back(eval(*child, scope));
    return m_.sequence(node.kind == ExprKind::list ? Kind::list : Kind::tuple, std::move(items));
}

Value Interpreter::dict(const Expr& node, Scope& scope) {
    auto result = m_.new_dict();
    for (size_t i = 0; i < node.children.size(); i += 2) {
        Value key = eval(*node.children[i], scope);
        insert(m_, *result, std::move(key), eval(*node.children[i + 1], scope));
    }
    return m_.dict(std::move(result));
}

Value Interpreter::slice(const Expr& node, Scope& scope) {
    const Value object = eval(*node.children[0], scope);
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i) {
        if (node.children[i + 1]) bounds[i] = eval(*node.children[i + 1], scope);
    }
    m_.at = node.offset;
    return get_slice(m_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::concat(const Expr& node, Scope& scope) {
    Text text;
    for (const auto& child : node.children) {
        const Value value = eval(*child, scope);
        m_.at = node.offset;
        append_text(m_, text, value);
        if (text.bytes.size() > kMaxStringBytes) fail("string is too long: limit of 16 MiB");
    }
    return m_.string(std::move(text));
}

Value Interpreter::compare(const Expr& node, Scope& scope) {
    Value left = eval(*node.children[0], scope);
    for (size_t i = 0; i < node.operators.size(); ++i) {
        Value right = eval(*node.children[i + 1], scope);
        m_.at = node.offset;
        const std::string& op = node.operators[i];
        const bool holds = op == "=="       ? equal(m_, left, right)
                           : op == "!="     ? !equal(m_, left, right)
                           : op == "in"     ? contains(m_, right, left)
                           : op == "not in" ? !contains(m_, right, left)
                           : op == "<"      ? less(m_, left, right)
                           : op == ">"      ? less(m_, right, left)
                           : op == "<="     ? less(m_, left, right) || equal(m_, left, right)
                                            : less(m_, right, left) || equal(m_, left, right);
        if (!holds) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Value Interpreter::conditional(const Expr& node, Scope& scope) {
    if (truthy(eval(*node.children[1], scope))) return eval(*node.children[0], scope);
    if (node.children[2]) return eval(*node.children[2], scope);
    m_.at = node.offset;
    return m_.undefined("the inline 'if' was false and has no 'else'");
}

// The innermost filter of a chain in a block has no input of its own.
Value Interpreter::filter_chain(const Expr& node, const Value& input, Scope& scope) {
    if (!node.children[0]) return apply_filter(node, input, scope);
    return apply_filter(node, filter_chain(*node.children[0], input, scope), scope);
}

Value Interpreter::apply_filter(const Expr& node, const Value& input, Scope& scope) {
    Args args = arguments(node.args, scope);
    m_.at = node.offset;
    m_.step();
    return node.filter(m_, input, args);
}

Args Interpreter::arguments(const CallArgs& args, Scope& scope) {
    Args result;
    result.positional.reserve(args.positional.size());
    for (const auto& one : args.positional) result.positional.push_back(eval(*one, scope));
    for (const auto& [name, one] : args.named) result.named.push_back({name, eval(*one, scope)});
    if (args.star) {
        for (Value& one : to_vector(m_, eval(*args.star, scope)))
            result.positional.push_back(std::move(one));
    }
    if (args.star_star) {
        const Value more = eval(*args.star_star, scope);
        if (!more.is(Kind::dict)) fail("argument after ** must be a mapping");
        for (const auto& [key, value] : more.dict().entries) {
            if (!key.is_string()) fail("keywords must be strings");
            m_.step();
            for (const auto& old : result.named) {
                if (old.name == key.text().bytes)
                    fail(fmt::format("keyword '{}' is repeated", old.name));
            }
            result.named.push_back({key.text().bytes, value, key.text().any_user()});
        }
    }
    return result;
}

Value Interpreter::call_expr(const Expr& node, Scope& scope) {
    const Value callee = eval(*node.children[0], scope);
    Args args = arguments(node.args, scope);
    m_.at = node.offset;
    m_.step();
    return call(m_, callee, args);
}

}  // namespace

Text run(Machine& machine, const Template& tree) {
    return Interpreter(machine).render(tree);
}

}  // namespace bifocal::jinja
