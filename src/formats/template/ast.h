// The tree of a template. Two plain structs, one for expressions and one for statements; which
// members a kind uses stands beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/template/machine.h"
#include "formats/template/value.h"

namespace bifocal::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

// Where a variable lives: `hops` frames up from the frame of the code, then a slot.
struct VariableRef {
    int hops = 0;
    int slot = 0;
};

// What a frame's variable is when the frame begins.
enum class Load : uint8_t {
    parameter,  // set by whoever enters the frame
    resolve,    // looked up among the inputs and globals
    alias,      // copied from the variable of the same name further out
    unset,
};

struct FrameSlot {
    std::string name;
    Load load = Load::unset;
    VariableRef outer;  // of alias; hops counted from the frame itself
};

struct Frame {
    std::vector<FrameSlot> slots;
    bool captured = false;  // code that may outlive the frame refers to it: a macro, a call block
};

struct CallArgs {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr star, star_star;
};

enum class ExprKind : uint8_t {
    constant,         // value
    name,             // name, variable
    namespace_field,  // name (the variable), text (the field); as a target only
    tuple,            // children
    list,             // children
    dict,             // children: key, value, key, value
    attribute,        // children[0], text
    item,             // children[0], children[1]
    slice,            // children[0], then start, stop, step or null
    call,             // children[0], args
    filter,           // children[0] or null in blocks; text, args, filter
    test,             // children[0]; text, args, test
    compare,          // children[0], then one per operator; operators
    concat,           // children
    binary,           // children[0], children[1]; text: + - * / // ** %
    logical_and,
    logical_or,
    logical_not,
    negative,
    positive,
    conditional,  // children: value, condition, other or null
};

struct Expr {
    ExprKind kind = ExprKind::constant;
    size_t offset = 0;
    uint32_t depth = 1;
    Value value;
    std::string name;
    std::string text;
    VariableRef variable;
    std::vector<ExprPtr> children;
    std::vector<std::string> operators;
    CallArgs args;
    Filter filter = nullptr;
    Test test = nullptr;
};

enum class StmtKind : uint8_t {
    text,          // text
    print,         // expressions
    if_else,       // branches: condition or null, body
    for_in,        // target, expressions[0], condition or null, body, otherwise, recursive
    set,           // target, expressions[0]
    set_block,     // target, expressions: filter chain or empty; body
    macro,         // name, parameters, defaults, body
    call_block,    // expressions[0]: the call; parameters, defaults, body
    filter_block,  // expressions[0], body
    with,          // targets, expressions, body
    generation,    // body
    loop_break,
    loop_continue,
};

struct Branch {
    ExprPtr condition;  // null: else
    Body body;
};

struct Stmt {
    StmtKind kind = StmtKind::text;
    size_t offset = 0;
    Text text;
    std::string name;
    VariableRef variable;  // macro: where its name is stored
    ExprPtr target;
    std::vector<ExprPtr> targets;
    std::vector<ExprPtr> expressions;
    ExprPtr condition;
    std::vector<Branch> branches;
    Body body, otherwise;
    bool recursive = false;

    // Macros and call blocks.
    std::vector<std::string> parameters;
    std::vector<ExprPtr> defaults;  // of the last parameters
    bool takes_caller = false, takes_kwargs = false, takes_varargs = false;

    // Frames by use: body; the test and the `else` of a loop.
    Frame frame, test_frame, else_frame;
    bool uses_loop = false;  // the loop variable is declared in `frame`, slot 0
    ExprPtr test_target;     // the loop target once more, resolved in test_frame
};

struct Template {
    std::string source;  // normalised
    Body body;
    Frame frame;
};

}  // namespace bifocal::jinja
