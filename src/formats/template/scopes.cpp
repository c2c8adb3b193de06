#include "formats/template/scopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace bifocal::jinja {
namespace {

struct Symbols;

struct Variable {
    Load load = Load::unset;
    Symbols* outer = nullptr;  // of alias
    int slot = -1;
};

// Copies of a frame's variables that its branches may cost: bounds the time that compiling takes.
constexpr size_t kMaxCopies = 5'000'000;

struct Symbols {
    Symbols* parent = nullptr;
    Frame* frame = nullptr;
    std::map<std::string, Variable> loads;  // every variable of the frame
    std::set<std::string> stores;

    Symbols* owner(const std::string& name) {
        for (Symbols* s = this; s; s = s->parent) {
            if (s->loads.contains(name)) return s;
        }
        return nullptr;
    }
    void declare(const std::string& name) {
        stores.insert(name);
        loads[name] = {Load::parameter};
    }
    void load(const std::string& name) {
        if (!owner(name)) loads[name] = {Load::resolve};
    }
    void store(const std::string& name) {
        stores.insert(name);
        if (loads.contains(name)) return;
        Symbols* outer = parent ? parent->owner(name) : nullptr;
        loads[name] = {outer ? Load::alias : Load::unset, outer};
    }
    void merge_branches(const std::vector<Symbols>& branches) {
        std::set<std::string> stored;
        for (const Symbols& branch : branches)
            stored.insert(branch.stores.begin(), branch.stores.end());
        for (const auto& name : stores) stored.erase(name);
        for (const Symbols& branch : branches) {
            for (const auto& [name, load] : branch.loads) loads[name] = load;
            stores.insert(branch.stores.begin(), branch.stores.end());
        }
        // Stored on one path only: the value before the branch must be there on the other.
        for (const auto& name : stored) {
            Symbols* outer = parent ? parent->owner(name) : nullptr;
            loads[name] = {outer ? Load::alias : Load::resolve, outer};
        }
    }
};

// Calls `visit` for each expression directly below.
template <class Visit>
void each_child(const Expr& node, const Visit& visit) {
    for (const auto& child : node.children) {
        if (child) visit(*child);
    }
    for (const auto& child : node.args.positional) visit(*child);
    for (const auto& [name, child] : node.args.named) visit(*child);
    if (node.args.star) visit(*node.args.star);
    if (node.args.star_star) visit(*node.args.star_star);
}

// Collects the variables of one frame; does not go into frames inside it.
class FrameVisitor {
  public:
    FrameVisitor(Symbols& symbols, size_t& copies) : symbols_(&symbols), copies_(&copies) {}

    void expr(const Expr& node) {
        if (node.kind == ExprKind::name || node.kind == ExprKind::namespace_field)
            symbols_->load(node.name);
        each_child(node, [&](const Expr& child) { expr(child); });
    }

    void target(const Expr& node, bool as_parameter) {
        if (node.kind == ExprKind::name) {
            as_parameter ? symbols_->declare(node.name) : symbols_->store(node.name);
        } else if (node.kind == ExprKind::namespace_field) {
            symbols_->load(node.name);
        } else {
            for (const auto& child : node.children) target(*child, as_parameter);
        }
    }

    void body(const Body& statements) {
        for (const auto& one : statements) stmt(*one);
    }

    void stmt(const Stmt& node) {
        switch (node.kind) {
            case StmtKind::if_else:
                return if_else(node);
            case StmtKind::set:
                expr(*node.expressions[0]);
                return target(*node.target, false);
            case StmtKind::set_block:
                return target(*node.target, false);
            case StmtKind::macro:
                return symbols_->store(node.name);
            default:
                for (const auto& one : node.expressions) expr(*one);
        }
    }

  private:
    Symbols copied(const Symbols& symbols) {
        *copies_ += symbols.loads.size() + symbols.stores.size() + 1;
        if (*copies_ > kMaxCopies) throw Failure{"template has too many branches and variables", 0};
        return symbols;
    }

    Symbols branch(const std::vector<const Branch*>& branches, bool with_conditions) {
        Symbols copy = copied(*symbols_);
        FrameVisitor inner(copy, *copies_);
        for (const Branch* one : branches) {
            if (with_conditions) {
                inner.expr(*one->condition);
                Symbols body = copied(copy);
                FrameVisitor(body, *copies_).body(one->body);
                copy.merge_branches({body});
            } else {
                inner.body(one->body);
            }
        }
        return copy;
    }

    // The first condition belongs to the frame; then the first body, all `elif`s, and the `else`
    // each start from the same state.
    void if_else(const Stmt& node) {
        expr(*node.branches[0].condition);
        std::vector<const Branch*> elifs, otherwise;
        for (size_t i = 1; i < node.branches.size(); ++i) {
            (node.branches[i].condition ? elifs : otherwise).push_back(&node.branches[i]);
        }
        const std::vector<Symbols> branches = {branch({&node.branches[0]}, false),
                                               branch(elifs, true), branch(otherwise, false)};
        symbols_->merge_branches(branches);
    }

    Symbols* symbols_;
    size_t* copies_;
};

// Which of `names` the code reads before it stores them, going into every frame.
class UndeclaredVisitor {
  public:
    explicit UndeclaredVisitor(std::set<std::string> names) : names_(std::move(names)) {}

    void expr(const Expr& node) {
        if (node.kind == ExprKind::name && names_.contains(node.name)) found.insert(node.name);
        each_child(node, [&](const Expr& child) { expr(child); });
    }

    void target(const Expr& node) {
        if (node.kind == ExprKind::name) names_.erase(node.name);
        for (const auto& child : node.children) target(*child);
    }

    void body(const Body& statements) {
        for (const auto& one : statements) stmt(*one);
    }

    std::set<std::string> found;

  private:
    void stmt(const Stmt& node) {
        const bool filter_last = node.kind == StmtKind::filter_block;
        if (node.target) target(*node.target);
        for (const auto& one : node.targets) target(*one);
        if (!filter_last) exprs(node.expressions);
        for (const auto& name : node.parameters) names_.erase(name);
        exprs(node.defaults);
        for (const auto& branch : node.branches) {
            if (branch.condition) expr(*branch.condition);
            body(branch.body);
        }
        body(node.body);
        body(node.otherwise);
        if (node.condition) expr(*node.condition);
        if (filter_last) exprs(node.expressions);
    }

    void exprs(const std::vector<ExprPtr>& nodes) {
        for (const auto& one : nodes) expr(*one);
    }

    std::set<std::string> names_;
};

class Resolver {
  public:
    explicit Resolver(std::set<std::string> guarded) : guarded_(std::move(guarded)) {}

    void root(Template& tree) {
        Symbols symbols;
        symbols.frame = &tree.frame;
        FrameVisitor(symbols, copies_).body(tree.body);
        finish(symbols, {});
        body(tree.body, symbols);
    }

  private:
    static void finish(Symbols& symbols, const std::vector<std::string>& first) {
        Frame& frame = *symbols.frame;
        const auto add = [&](const std::string& name) {
            Variable& variable = symbols.loads.at(name);
            FrameSlot slot{name, variable.load, {}};
            if (variable.load == Load::alias)
                slot.outer = reference(symbols, *variable.outer, name);
            variable.slot = static_cast<int>(frame.slots.size());
            frame.slots.push_back(std::move(slot));
        };
        for (const auto& name : first) add(name);
        for (const auto& [name, variable] : symbols.loads) {
            if (variable.slot < 0) add(name);
        }
    }

    static VariableRef reference(const Symbols& from, const Symbols& owner,
                                 const std::string& name) {
        VariableRef ref;
        for (const Symbols* s = &from; s != &owner; s = s->parent) ++ref.hops;
        ref.slot = owner.loads.at(name).slot;
        return ref;
    }

    static Symbols inner(Symbols& outer, Frame& frame) {
        Symbols symbols;
        symbols.parent = &outer;
        symbols.frame = &frame;
        return symbols;
    }

    static void capture(Symbols& symbols) {
        for (Symbols* s = &symbols; s; s = s->parent) s->frame->captured = true;
    }

    VariableRef variable(Symbols& symbols, const std::string& name, size_t offset) {
        Symbols* owner = symbols.owner(name);
        if (!owner) throw Failure{fmt::format("variable '{}' cannot be resolved", name), offset};
        return reference(symbols, *owner, name);
    }

    void expr(Expr& node, Symbols& symbols) {
        if (node.kind == ExprKind::name || node.kind == ExprKind::namespace_field)
            node.variable = variable(symbols, node.name, node.offset);
        if (node.kind == ExprKind::call && node.children[0]->kind == ExprKind::name)
            check_function(*node.children[0], symbols);
        each_child(node, [&](const Expr& child) { expr(const_cast<Expr&>(child), symbols); });
    }

    void check_function(const Expr& callee, Symbols& symbols) const {
        const Symbols* owner = symbols.owner(callee.name);
        if (!owner || owner->loads.at(callee.name).load != Load::resolve) return;
        if (owner->stores.contains(callee.name) || guarded_.contains(callee.name)) return;
        if (global_functions().contains(callee.name)) return;
        throw Failure{fmt::format("unsupported function '{}'", callee.name), callee.offset};
    }

    void body(Body& statements, Symbols& symbols) {
        for (auto& one : statements) stmt(*one, symbols);
    }

    void exprs(std::vector<ExprPtr>& nodes, Symbols& symbols) {
        for (auto& one : nodes) expr(*one, symbols);
    }

    void stmt(Stmt& node, Symbols& symbols) {
        switch (node.kind) {
            case StmtKind::text:
            case StmtKind::loop_break:
            case StmtKind::loop_continue:
                return;
            case StmtKind::print:
                return exprs(node.expressions, symbols);
            case StmtKind::if_else:
                for (auto& branch : node.branches) {
                    if (branch.condition) expr(*branch.condition, symbols);
                    body(branch.body, symbols);
                }
                return;
            case StmtKind::for_in:
                return for_in(node, symbols);
            case StmtKind::set:
                expr(*node.expressions[0], symbols);
                return expr(*node.target, symbols);
            case StmtKind::set_block:
            case StmtKind::filter_block: {
                if (node.target) expr(*node.target, symbols);
                Symbols own = inner(symbols, node.frame);
                FrameVisitor visitor(own, copies_);
                visitor.body(node.body);
                for (const auto& one : node.expressions) visitor.expr(*one);
                finish(own, {});
                body(node.body, own);
                return exprs(node.expressions, own);
            }
            case StmtKind::with: {
                exprs(node.expressions, symbols);
                Symbols own = inner(symbols, node.frame);
                FrameVisitor visitor(own, copies_);
                for (const auto& one : node.targets) visitor.target(*one, true);
                visitor.body(node.body);
                finish(own, {});
                exprs(node.targets, own);
                return body(node.body, own);
            }
            case StmtKind::macro:
                node.variable = variable(symbols, node.name, node.offset);
                return macro(node, symbols);
            case StmtKind::call_block:
                exprs(node.expressions, symbols);
                return macro(node, symbols);
            case StmtKind::generation:
                return macro(node, symbols);
        }
    }

    void macro(Stmt& node, Symbols& symbols) {
        if (node.kind != StmtKind::generation) capture(symbols);
        Symbols own = inner(symbols, node.frame);
        std::vector<std::string> first = node.parameters;
        FrameVisitor visitor(own, copies_);
        for (const auto& name : node.parameters) own.declare(name);
        for (const auto& one : node.defaults) visitor.expr(*one);
        visitor.body(node.body);

        UndeclaredVisitor undeclared({"caller", "kwargs", "varargs"});
        undeclared.body(node.body);
        const auto explicit_parameter = [&](const char* name) {
            return std::ranges::count(node.parameters, name) > 0;
        };
        const auto take = [&](const char* name, bool& takes) {
            if (!undeclared.found.contains(name) || explicit_parameter(name)) return;
            takes = true;
            own.declare(name);
            first.emplace_back(name);
        };
        if (undeclared.found.contains("caller") && explicit_parameter("caller")) {
            const auto at = std::ranges::find(node.parameters, "caller") - node.parameters.begin();
            if (at < static_cast<std::ptrdiff_t>(node.parameters.size() - node.defaults.size()))
                throw Failure{"parameter 'caller' needs a default", node.offset};
            node.takes_caller = true;
        }
        take("caller", node.takes_caller);
        take("kwargs", node.takes_kwargs);
        take("varargs", node.takes_varargs);
        finish(own, first);
        exprs(node.defaults, own);
        body(node.body, own);
    }

    void for_in(Stmt& node, Symbols& symbols) {
        forbid_loop_store(node);
        if (node.recursive) capture(symbols);
        expr(*node.expressions[0], symbols);
        UndeclaredVisitor undeclared({"loop"});
        undeclared.body(node.body);
        node.uses_loop = node.recursive || !undeclared.found.empty();

        Symbols own = inner(symbols, node.frame);
        if (node.uses_loop) own.declare("loop");
        FrameVisitor visitor(own, copies_);
        visitor.target(*node.target, true);
        visitor.body(node.body);
        finish(own, node.uses_loop ? std::vector<std::string>{"loop"} : std::vector<std::string>{});
        expr(*node.target, own);
        body(node.body, own);

        if (node.condition) {
            Symbols test = inner(symbols, node.test_frame);
            FrameVisitor test_visitor(test, copies_);
            test_visitor.target(*node.test_target, true);
            test_visitor.expr(*node.condition);
            finish(test, {});
            expr(*node.test_target, test);
            expr(*node.condition, test);
        }
        Symbols otherwise = inner(symbols, node.else_frame);
        FrameVisitor(otherwise, copies_).body(node.otherwise);
        finish(otherwise, {});
        body(node.otherwise, otherwise);
    }

    static void forbid_loop_target(const Expr& target) {
        if (target.kind == ExprKind::name && target.name == "loop")
            throw Failure{"'loop' cannot be assigned to inside a loop", target.offset};
        for (const auto& child : target.children) forbid_loop_target(*child);
    }

    static void forbid_loop_store(const Stmt& node) {
        if (node.target) forbid_loop_target(*node.target);
        for (const auto& branch : node.branches) {
            for (const auto& one : branch.body) forbid_loop_store(*one);
        }
        for (const auto& one : node.body) forbid_loop_store(*one);
        for (const auto& one : node.otherwise) forbid_loop_store(*one);
    }

    std::set<std::string> guarded_;
    size_t copies_ = 0;
};

// Names of which the template asks whether they are defined: calling one of them is not a mistake.
class GuardVisitor {
  public:
    void expr(const Expr& node) {
        if (node.kind == ExprKind::test && (node.text == "defined" || node.text == "undefined") &&
            node.children[0]->kind == ExprKind::name)
            names.insert(node.children[0]->name);
        each_child(node, [&](const Expr& child) { expr(child); });
    }
    void body(const Body& statements) {
        for (const auto& node : statements) {
            for (const auto& one : node->expressions) expr(*one);
            for (const auto& one : node->defaults) expr(*one);
            if (node->condition) expr(*node->condition);
            for (const auto& branch : node->branches) {
                if (branch.condition) expr(*branch.condition);
                body(branch.body);
            }
            body(node->body);
            body(node->otherwise);
        }
    }
    std::set<std::string> names;
};

}  // namespace

void resolve_variables(Template& tree) {
    GuardVisitor guards;
    guards.body(tree.body);
    Resolver(std::move(guards.names)).root(tree);
}

}  // namespace bifocal::jinja
