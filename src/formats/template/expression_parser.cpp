#include "formats/template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/template/parser.h"

namespace bifocal::jinja {
namespace {

std::vector<ExprPtr> pack(ExprPtr a, ExprPtr b = nullptr) {
    std::vector<ExprPtr> children;
    children.push_back(std::move(a));
    if (b) children.push_back(std::move(b));
    return children;
}

// Filters that take another filter's or a test's name as a string.
int named_argument(std::string_view filter) {
    if (filter == "map" || filter == "select" || filter == "reject") return 0;
    if (filter == "selectattr" || filter == "rejectattr") return 1;
    return -1;
}

std::string describe(const Lexeme& lexeme) {
    switch (lexeme.token) {
        case Token::data:
            return "text";
        case Token::print_begin:
            return "{{";
        case Token::print_end:
            return "}}";
        case Token::block_begin:
            return "{%";
        case Token::block_end:
            return "%}";
        case Token::string:
            return "a string";
        case Token::integer:
        case Token::real:
            return "a number";
        case Token::end:
            return "the end of the template";
        default:
            return "'" + lexeme.text + "'";
    }
}

}  // namespace

void ExpressionParser::error(std::string what, size_t offset) const {
    throw Failure{std::move(what), offset};
}

void ExpressionParser::unexpected(std::string_view expected) const {
    error(fmt::format("expected {}, got {}", expected, describe(current())), current().offset);
}

bool ExpressionParser::skip_op(std::string_view op) {
    if (!current().is_op(op)) return false;
    next();
    return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    next();
    return true;
}

void ExpressionParser::expect_op(std::string_view op) {
    if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
}

const Lexeme& ExpressionParser::expect_name() {
    if (current().token != Token::name) unexpected("a name");
    return next();
}

void ExpressionParser::expect(Token token, std::string_view what) {
    if (current().token != token) unexpected(what);
    next();
}

void ExpressionParser::measure(Expr& node) const {
    const auto deepen = [&](const ExprPtr& child) {
        if (child) node.depth = std::max(node.depth, child->depth + 1);
    };
    for (const auto& child : node.children) deepen(child);
    for (const auto& child : node.args.positional) deepen(child);
    for (const auto& [name, child] : node.args.named) deepen(child);
    deepen(node.args.star);
    deepen(node.args.star_star);
    if (node.depth > kMaxExprDepth) error("expression is nested too deeply", node.offset);
}

ExprPtr ExpressionParser::make(ExprKind kind, size_t offset, std::vector<ExprPtr> children) const {
    auto node = std::make_unique<Expr>();
    node->kind = kind;
    node->offset = offset;
    node->children = std::move(children);
    measure(*node);
    return node;
}

ExprPtr ExpressionParser::binary(std::string op, size_t offset, ExprPtr left, ExprPtr right) const {
    auto node = make(ExprKind::binary, offset, pack(std::move(left), std::move(right)));
    node->text = std::move(op);
    return node;
}

ExprPtr ExpressionParser::expression(bool with_conditional) {
    if (++open_ > kMaxStmtDepth) error("expression is nested too deeply", current().offset);
    auto node = with_conditional ? conditional() : logical_or();
    --open_;
    return node;
}

ExprPtr ExpressionParser::conditional() {
    auto value = logical_or();
    while (current().is_name("if")) {
        const size_t offset = next().offset;
        auto condition = logical_or();
        ExprPtr other;
        if (skip_name("else")) other = expression();
        auto children = pack(std::move(value), std::move(condition));
        children.push_back(std::move(other));
        value = make(ExprKind::conditional, offset, std::move(children));
    }
    return value;
}

ExprPtr ExpressionParser::logical_or() {
    auto left = logical_and();
    while (current().is_name("or")) {
        const size_t offset = next().offset;
        auto right = logical_and();
        left = make(ExprKind::logical_or, offset, pack(std::move(left), std::move(right)));
    }
    return left;
}

ExprPtr ExpressionParser::logical_and() {
    auto left = logical_not();
    while (current().is_name("and")) {
        const size_t offset = next().offset;
        auto right = logical_not();
        left = make(ExprKind::logical_and, offset, pack(std::move(left), std::move(right)));
    }
    return left;
}

ExprPtr ExpressionParser::logical_not() {
    if (!current().is_name("not")) return compare();
    const size_t offset = next().offset;
    if (++open_ > kMaxStmtDepth) error("expression is nested too deeply", offset);
    auto node = make(ExprKind::logical_not, offset, pack(logical_not()));
    --open_;
    return node;
}

ExprPtr ExpressionParser::compare() {
    auto first = sum();
    std::vector<ExprPtr> children;
    std::vector<std::string> operators;
    const size_t offset = current().offset;
    while (true) {
        const Lexeme& token = current();
        static constexpr std::string_view kOrder[] = {"==", "!=", "<", "<=", ">", ">="};
        if (token.token == Token::op && std::ranges::count(kOrder, token.text)) {
            operators.push_back(next().text);
        } else if (skip_name("in")) {
            operators.emplace_back("in");
        } else if (token.is_name("not") && look().is_name("in")) {
            next();
            next();
            operators.emplace_back("not in");
        } else {
            break;
        }
        children.push_back(sum());
    }
    if (operators.empty()) return first;
    children.insert(children.begin(), std::move(first));
    auto node = make(ExprKind::compare, offset, std::move(children));
    node->operators = std::move(operators);
    return node;
}

ExprPtr ExpressionParser::sum() {
    auto left = concat();
    while (current().is_op("+") || current().is_op("-")) {
        const Lexeme op = next();
        auto right = concat();
        left = binary(op.text, op.offset, std::move(left), std::move(right));
    }
    return left;
}

ExprPtr ExpressionParser::concat() {
    auto first = product();
    if (!current().is_op("~")) return first;
    const size_t offset = current().offset;
    auto children = pack(std::move(first));
    while (skip_op("~")) children.push_back(product());
    return make(ExprKind::concat, offset, std::move(children));
}

ExprPtr ExpressionParser::product() {
    auto left = power();
    while (current().is_op("*") || current().is_op("/") || current().is_op("//") ||
           current().is_op("%")) {
        const Lexeme op = next();
        auto right = power();
        left = binary(op.text, op.offset, std::move(left), std::move(right));
    }
    return left;
}

ExprPtr ExpressionParser::power() {
    auto left = unary(true);
    while (current().is_op("**")) {
        const Lexeme op = next();
        auto right = unary(true);
        left = binary(op.text, op.offset, std::move(left), std::move(right));
    }
    return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
    ExprPtr node;
    if (current().is_op("-") || current().is_op("+")) {
        const Lexeme op = next();
        if (++open_ > kMaxStmtDepth) error("expression is nested too deeply", op.offset);
        node = make(op.text == "-" ? ExprKind::negative : ExprKind::positive, op.offset,
                    pack(unary(false)));
        --open_;
    } else {
        node = primary(false);
    }
    node = postfix(std::move(node));
    return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::primary(bool with_namespace) {
    const Lexeme& token = current();
    const size_t offset = token.offset;
    switch (token.token) {
        case Token::name: {
            const std::string name = next().text;
            auto node = make(ExprKind::constant, offset);
            if (name == "true" || name == "True") {
                node->value = Value::boolean(true);
            } else if (name == "false" || name == "False") {
                node->value = Value::boolean(false);
            } else if (name == "none" || name == "None") {
                node->value = Value::none();
            } else {
                if (name[0] >= '0' && name[0] <= '9')
                    error("a name cannot begin with a digit", offset);
                node->kind = ExprKind::name;
                node->name = name;
                if (with_namespace && skip_op(".")) {
                    node->kind = ExprKind::namespace_field;
                    node->text = expect_name().text;
                }
            }
            return node;
        }
        case Token::string: {
            std::string text;
            while (current().token == Token::string) text += next().text;
            auto node = make(ExprKind::constant, offset);
            node->value = Value::literal(text);
            return node;
        }
        case Token::integer: {
            auto node = make(ExprKind::constant, offset);
            node->value = Value::integer(next().integer);
            return node;
        }
        case Token::real: {
            auto node = make(ExprKind::constant, offset);
            node->value = Value::real(next().real);
            return node;
        }
        default:
            break;
    }
    if (token.is_op("(")) {
        next();
        auto node = tuple(true, {}, true);
        expect_op(")");
        return node;
    }
    if (token.is_op("[")) return list();
    if (token.is_op("{")) return dict();
    unexpected("an expression");
}

bool ExpressionParser::tuple_end(std::string_view end_name) const {
    const Lexeme& token = current();
    return token.token == Token::print_end || token.token == Token::block_end || token.is_op(")") ||
           (!end_name.empty() && token.is_name(end_name));
}

ExprPtr ExpressionParser::tuple(bool with_conditional, std::string_view end_name,
                                bool in_parentheses) {
    const size_t offset = current().offset;
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (true) {
        if (!items.empty()) expect_op(",");
        if (tuple_end(end_name)) break;
        items.push_back(expression(with_conditional));
        if (!current().is_op(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items[0]);
    if (!is_tuple && !in_parentheses) unexpected("an expression");
    return make(ExprKind::tuple, offset, std::move(items));
}

ExprPtr ExpressionParser::simple_tuple(bool with_namespace, std::string_view end_name,
                                       bool in_parentheses) {
    const size_t offset = current().offset;
    if (++open_ > kMaxStmtDepth) error("expression is nested too deeply", offset);
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (true) {
        if (!items.empty()) expect_op(",");
        if (tuple_end(end_name)) break;
        if (current().is_op("(")) {
            next();
            items.push_back(simple_tuple(false, {}, true));
            expect_op(")");
        } else {
            items.push_back(primary(with_namespace));
        }
        if (!current().is_op(",")) break;
        is_tuple = true;
    }
    --open_;
    if (!is_tuple && !items.empty()) return std::move(items[0]);
    if (!is_tuple && !in_parentheses) unexpected("a variable to assign to");
    return make(ExprKind::tuple, offset, std::move(items));
}

void ExpressionParser::check_targets(const Expr& node) const {
    if (node.kind == ExprKind::tuple) {
        for (const auto& child : node.children) check_targets(*child);
    } else if (node.kind != ExprKind::name && node.kind != ExprKind::namespace_field) {
        error("cannot assign to this expression", node.offset);
    }
}

ExprPtr ExpressionParser::target(bool with_namespace, std::string_view end_name) {
    auto node = simple_tuple(with_namespace, end_name, false);
    check_targets(*node);
    return node;
}

ExprPtr ExpressionParser::list() {
    const size_t offset = next().offset;
    std::vector<ExprPtr> items;
    while (!current().is_op("]")) {
        if (!items.empty()) expect_op(",");
        if (current().is_op("]")) break;
        items.push_back(expression());
    }
    next();
    return make(ExprKind::list, offset, std::move(items));
}

ExprPtr ExpressionParser::dict() {
    const size_t offset = next().offset;
    std::vector<ExprPtr> items;
    while (!current().is_op("}")) {
        if (!items.empty()) expect_op(",");
        if (current().is_op("}")) break;
        items.push_back(expression());
        expect_op(":");
        items.push_back(expression());
    }
    next();
    return make(ExprKind::dict, offset, std::move(items));
}

ExprPtr ExpressionParser::postfix(ExprPtr node) {
    while (true) {
        if (current().is_op(".") || current().is_op("[")) {
            node = subscript(std::move(node));
        } else if (current().is_op("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr node) {
    while (true) {
        if (current().is_op("|")) {
            node = filters(std::move(node), false);
        } else if (current().is_name("is")) {
            node = test(std::move(node));
        } else if (current().is_op("(")) {
            node = call(std::move(node));
        } else {
            return node;
        }
    }
}

ExprPtr ExpressionParser::subscript(ExprPtr node) {
    const Lexeme open = next();
    if (open.text == ".") {
        const Lexeme field = next();
        if (field.token == Token::name) {
            auto attribute = make(ExprKind::attribute, open.offset, pack(std::move(node)));
            attribute->text = field.text;
            return attribute;
        }
        if (field.token != Token::integer)
            error("expected a name or number after '.'", field.offset);
        auto index = make(ExprKind::constant, field.offset);
        index->value = Value::integer(field.integer);
        return make(ExprKind::item, open.offset, pack(std::move(node), std::move(index)));
    }
    std::vector<ExprPtr> keys;
    while (!current().is_op("]")) {
        if (!keys.empty()) expect_op(",");
        keys.push_back(subscribed());
    }
    next();
    if (keys.size() == 1 && keys[0]->kind == ExprKind::slice) {
        auto slice = std::move(keys[0]);
        slice->offset = open.offset;
        slice->children[0] = std::move(node);
        measure(*slice);
        return slice;
    }
    for (const auto& key : keys) {
        if (key->kind == ExprKind::slice) error("a slice must stand alone", key->offset);
    }
    auto key =
        keys.size() == 1 ? std::move(keys[0]) : make(ExprKind::tuple, open.offset, std::move(keys));
    return make(ExprKind::item, open.offset, pack(std::move(node), std::move(key)));
}

ExprPtr ExpressionParser::subscribed() {
    const size_t offset = current().offset;
    ExprPtr start, stop, step;
    if (!current().is_op(":")) {
        start = expression();
        if (!current().is_op(":")) return start;
    }
    next();
    const auto ends = [&] { return current().is_op("]") || current().is_op(","); };
    if (!current().is_op(":") && !ends()) stop = expression();
    if (skip_op(":") && !ends()) step = expression();
    std::vector<ExprPtr> children(1);
    children.push_back(std::move(start));
    children.push_back(std::move(stop));
    children.push_back(std::move(step));
    return make(ExprKind::slice, offset, std::move(children));
}

CallArgs ExpressionParser::call_args() {
    const size_t offset = current().offset;
    expect_op("(");
    CallArgs args;
    const auto ensure = [&](bool ordered) {
        if (!ordered) error("arguments of this call are in a wrong order", offset);
    };
    bool first = true;
    while (!current().is_op(")")) {
        if (!first) {
            expect_op(",");
            if (current().is_op(")")) break;
        }
        first = false;
        if (skip_op("*")) {
            ensure(!args.star && !args.star_star);
            args.star = expression();
        } else if (skip_op("**")) {
            ensure(!args.star_star);
            args.star_star = expression();
        } else if (current().token == Token::name && look().is_op("=")) {
            ensure(!args.star_star);
            const Lexeme key = next();
            next();
            for (const auto& [name, value] : args.named) {
                if (name == key.text) error("keyword argument is repeated", key.offset);
            }
            args.named.emplace_back(key.text, expression());
        } else {
            ensure(!args.star && !args.star_star && args.named.empty());
            args.positional.push_back(expression());
        }
    }
    expect_op(")");
    return args;
}

ExprPtr ExpressionParser::call(ExprPtr node) {
    const size_t offset = current().offset;
    auto call = make(ExprKind::call, offset, pack(std::move(node)));
    call->args = call_args();
    measure(*call);
    return call;
}

std::string ExpressionParser::dotted_name() {
    std::string name = expect_name().text;
    while (skip_op(".")) name += "." + expect_name().text;
    return name;
}

void ExpressionParser::check_filter(Expr& node) const {
    node.filter = find_filter(node.text);
    if (!node.filter) error(fmt::format("unsupported filter '{}'", node.text), node.offset);
    const int position = named_argument(node.text);
    if (position < 0 || static_cast<int>(node.args.positional.size()) <= position) return;
    const Expr& name = *node.args.positional[static_cast<size_t>(position)];
    if (name.kind != ExprKind::constant || !name.value.is_string()) return;
    const std::string& text = name.value.text().bytes;
    const bool known =
        node.text == "map" ? find_filter(text) != nullptr : find_test(text) != nullptr;
    if (!known) {
        error(fmt::format("unsupported {} '{}'", node.text == "map" ? "filter" : "test", text),
              name.offset);
    }
}

void ExpressionParser::check_test(Expr& node) const {
    node.test = find_test(node.text);
    if (!node.test) error(fmt::format("unsupported test '{}'", node.text), node.offset);
}

ExprPtr ExpressionParser::filters(ExprPtr input, bool first_bare) {
    while (first_bare || current().is_op("|")) {
        if (!first_bare) next();
        first_bare = false;
        const size_t offset = current().offset;
        std::string name = dotted_name();
        std::vector<ExprPtr> children;
        children.push_back(std::move(input));
        auto node = make(ExprKind::filter, offset, std::move(children));
        node->text = std::move(name);
        if (current().is_op("(")) node->args = call_args();
        measure(*node);
        check_filter(*node);
        input = std::move(node);
    }
    return input;
}

ExprPtr ExpressionParser::test(ExprPtr tested) {
    next();  // is
    const bool negated = skip_name("not");
    const size_t offset = current().offset;
    auto node = make(ExprKind::test, offset, pack(std::move(tested)));
    node->text = dotted_name();
    const Lexeme& token = current();
    const bool starts_argument = token.token == Token::name || token.token == Token::string ||
                                 token.token == Token::integer || token.token == Token::real ||
                                 token.is_op("[") || token.is_op("{");
    if (token.is_op("(")) {
        node->args = call_args();
    } else if (starts_argument && !token.is_name("else") && !token.is_name("or") &&
               !token.is_name("and")) {
        if (token.is_name("is")) error("tests cannot be chained with 'is'", token.offset);
        node->args.positional.push_back(postfix(primary(false)));
    }
    measure(*node);
    check_test(*node);
    if (!negated) return node;
    return make(ExprKind::logical_not, offset, pack(std::move(node)));
}

}  // namespace bifocal::jinja
