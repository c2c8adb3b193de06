#include "formats/template/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/template/expression_parser.h"
#include "formats/template/scopes.h"

namespace bifocal::jinja {
namespace {

class Parser {
  public:
    explicit Parser(std::string_view source) : p_(tokenize(source)) {}

    Body run() {
        Body body = statements({});
        if (p_.current().token != Token::end) p_.unexpected("the end of the template");
        return body;
    }

  private:
    static StmtPtr make(StmtKind kind, size_t offset) {
        auto node = std::make_unique<Stmt>();
        node->kind = kind;
        node->offset = offset;
        return node;
    }

    // Statements up to a tag whose name is in `ends`; stands on that name afterwards.
    Body statements(std::vector<std::string_view> ends) {
        if (++depth_ > kMaxStmtDepth)
            p_.error("statements are nested too deeply", p_.current().offset);
        Body body;
        while (true) {
            const Lexeme& token = p_.current();
            if (token.token == Token::end) {
                if (!ends.empty())
                    p_.error(fmt::format("tag has no '{}'", ends.back()), open_tags_.back());
                break;
            }
            if (token.token == Token::data) {
                auto node = make(StmtKind::text, token.offset);
                node->text.bytes = p_.next().text;
                body.push_back(std::move(node));
            } else if (token.token == Token::print_begin) {
                auto node = make(StmtKind::print, p_.next().offset);
                node->expressions.push_back(p_.tuple());
                p_.expect(Token::print_end, "'}}'");
                body.push_back(std::move(node));
            } else {
                const size_t offset = p_.next().offset;
                if (p_.current().token != Token::name) p_.unexpected("the name of a tag");
                if (std::ranges::count(ends, p_.current().text)) break;
                open_tags_.push_back(offset);
                body.push_back(statement(offset));
                open_tags_.pop_back();
                p_.expect(Token::block_end, "'%}'");
            }
        }
        --depth_;
        return body;
    }

    Body block(std::vector<std::string_view> ends) {
        p_.skip_op(":");
        p_.expect(Token::block_end, "'%}'");
        return statements(std::move(ends));
    }

    Body last_block(std::string_view end) {
        Body body = block({end});
        p_.next();
        return body;
    }

    // Code that a loop around it cannot be left from.
    template <class Parse>
    auto outside_loops(Parse parse) {
        const int loops = std::exchange(loops_, 0);
        auto result = parse();
        loops_ = loops;
        return result;
    }

    StmtPtr statement(size_t offset) {
        const Lexeme tag = p_.next();
        const std::string& name = tag.text;
        if (name == "for") return for_statement(offset);
        if (name == "if") return if_statement(offset);
        if (name == "set") return set_statement(offset);
        if (name == "macro") return macro_statement(offset);
        if (name == "call") return call_statement(offset);
        if (name == "filter") return filter_statement(offset);
        if (name == "with") return with_statement(offset);
        if (name == "print") return print_statement(offset);
        if (name == "generation") {
            auto node = make(StmtKind::generation, offset);
            node->body = outside_loops([&] { return last_block("endgeneration"); });
            return node;
        }
        if (name == "break" || name == "continue") {
            if (loops_ == 0) p_.error(fmt::format("'{}' outside of a loop", name), tag.offset);
            return make(name == "break" ? StmtKind::loop_break : StmtKind::loop_continue, offset);
        }
        static constexpr std::string_view kUnsupported[] = {
            "block", "extends", "include", "import", "from", "autoescape", "do", "trans"};
        if (std::ranges::count(kUnsupported, name))
            p_.error(fmt::format("unsupported tag '{}'", name), tag.offset);
        p_.error(fmt::format("unknown tag '{}'", name), tag.offset);
    }

    StmtPtr for_statement(size_t offset) {
        auto node = make(StmtKind::for_in, offset);
        const Lexeme* first = &p_.current();
        const size_t target_at = first->offset;
        node->target = p_.target(false, "in");
        if (!p_.skip_name("in")) p_.unexpected("'in'");
        node->expressions.push_back(p_.tuple(false, "recursive"));
        if (p_.skip_name("if")) {
            node->condition = p_.expression();
            node->test_target = copy_target(*node->target, target_at);
        }
        node->recursive = p_.skip_name("recursive");
        ++loops_;
        node->body = block({"endfor", "else"});
        --loops_;
        if (p_.next().text == "else") {
            node->otherwise = node->recursive ? outside_loops([&] { return last_block("endfor"); })
                                              : last_block("endfor");
        }
        return node;
    }

    ExprPtr copy_target(const Expr& target, size_t offset) {
        auto copy = p_.make(target.kind, offset);
        copy->name = target.name;
        for (const auto& child : target.children)
            copy->children.push_back(copy_target(*child, child->offset));
        return copy;
    }

    StmtPtr if_statement(size_t offset) {
        auto node = make(StmtKind::if_else, offset);
        while (true) {
            auto condition = p_.tuple(false);
            node->branches.push_back({std::move(condition), block({"elif", "else", "endif"})});
            const std::string end = p_.next().text;
            if (end == "elif") continue;
            if (end == "else") node->branches.push_back({nullptr, last_block("endif")});
            return node;
        }
    }

    StmtPtr set_statement(size_t offset) {
        auto target = p_.target(true);
        if (p_.skip_op("=")) {
            auto node = make(StmtKind::set, offset);
            node->target = std::move(target);
            node->expressions.push_back(p_.tuple());
            return node;
        }
        auto node = make(StmtKind::set_block, offset);
        node->target = std::move(target);
        if (auto chain = p_.filters(nullptr, false)) node->expressions.push_back(std::move(chain));
        node->body = last_block("endset");
        return node;
    }

    std::string variable_name() {
        const Lexeme& name = p_.expect_name();
        static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                          "True", "False", "None"};
        if (std::ranges::count(kConstants, name.text) ||
            (name.text[0] >= '0' && name.text[0] <= '9'))
            p_.error(fmt::format("'{}' cannot be a variable", name.text), name.offset);
        return name.text;
    }

    void signature(Stmt& node) {
        p_.expect_op("(");
        while (!p_.current().is_op(")")) {
            if (!node.parameters.empty()) p_.expect_op(",");
            const size_t offset = p_.current().offset;
            const std::string name = variable_name();
            if (std::ranges::count(node.parameters, name))
                p_.error(fmt::format("parameter '{}' is repeated", name), offset);
            if (p_.skip_op("=")) {
                node.defaults.push_back(p_.expression());
            } else if (!node.defaults.empty()) {
                p_.error("a parameter without default follows one with default", offset);
            }
            node.parameters.push_back(name);
        }
        p_.next();
    }

    StmtPtr macro_statement(size_t offset) {
        auto node = make(StmtKind::macro, offset);
        node->name = variable_name();
        signature(*node);
        node->body = outside_loops([&] { return last_block("endmacro"); });
        return node;
    }

    StmtPtr call_statement(size_t offset) {
        auto node = make(StmtKind::call_block, offset);
        if (p_.current().is_op("(")) signature(*node);
        node->expressions.push_back(p_.expression());
        if (node->expressions[0]->kind != ExprKind::call)
            p_.error("'call' needs a call", node->expressions[0]->offset);
        node->body = outside_loops([&] { return last_block("endcall"); });
        return node;
    }

    StmtPtr filter_statement(size_t offset) {
        auto node = make(StmtKind::filter_block, offset);
        node->expressions.push_back(p_.filters(nullptr, true));
        node->body = last_block("endfilter");
        return node;
    }

    StmtPtr with_statement(size_t offset) {
        auto node = make(StmtKind::with, offset);
        while (p_.current().token != Token::block_end) {
            if (!node->targets.empty()) p_.expect_op(",");
            node->targets.push_back(p_.target(false));
            p_.expect_op("=");
            node->expressions.push_back(p_.expression());
        }
        node->body = last_block("endwith");
        return node;
    }

    StmtPtr print_statement(size_t offset) {
        auto node = make(StmtKind::print, offset);
        while (p_.current().token != Token::block_end) {
            if (!node->expressions.empty()) p_.expect_op(",");
            node->expressions.push_back(p_.expression());
        }
        return node;
    }

    ExpressionParser p_;
    int depth_ = 0;
    int loops_ = 0;
    std::vector<size_t> open_tags_;
};

}  // namespace

std::unique_ptr<Template> parse(std::string_view source) {
    auto result = std::make_unique<Template>();
    result->source = normalise_source(source);
    result->body = Parser(result->source).run();
    resolve_variables(*result);
    return result;
}

}  // namespace bifocal::jinja
