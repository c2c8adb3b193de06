// The expression half of the parser: precedence climbing as Jinja orders its operators.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "formats/template/ast.h"
#include "formats/template/lexer.h"

namespace bifocal::jinja {

class ExpressionParser {
  public:
    explicit ExpressionParser(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

    const Lexeme& current() const { return lexemes_[at_]; }
    const Lexeme& look() const { return lexemes_[std::min(at_ + 1, lexemes_.size() - 1)]; }
    const Lexeme& next() { return lexemes_[at_ + 1 < lexemes_.size() ? at_++ : at_]; }
    bool skip_op(std::string_view op);
    bool skip_name(std::string_view name);
    void expect_op(std::string_view op);
    const Lexeme& expect_name();
    void expect(Token token, std::string_view what);
    [[noreturn]] void error(std::string what, size_t offset) const;
    [[noreturn]] void unexpected(std::string_view expected) const;

    ExprPtr expression(bool with_conditional = true);
    // One expression, or a tuple of several. `end_name`: a word that also ends it.
    ExprPtr tuple(bool with_conditional = true, std::string_view end_name = {},
                  bool in_parentheses = false);
    // A name, a tuple of targets or, if allowed, a field of a namespace.
    ExprPtr target(bool with_namespace, std::string_view end_name = {});
    // The filters that follow: "| a | b(c)". `input` may be null in blocks; `first_bare`: the first
    // one has no bar.
    ExprPtr filters(ExprPtr input, bool first_bare);
    ExprPtr make(ExprKind kind, size_t offset, std::vector<ExprPtr> children = {}) const;

  private:
    ExprPtr conditional();
    ExprPtr logical_or();
    ExprPtr logical_and();
    ExprPtr logical_not();
    ExprPtr compare();
    ExprPtr sum();
    ExprPtr concat();
    ExprPtr product();
    ExprPtr power();
    ExprPtr unary(bool with_filter);
    ExprPtr primary(bool with_namespace);
    ExprPtr postfix(ExprPtr node);
    ExprPtr filters_and_tests(ExprPtr node);
    ExprPtr subscript(ExprPtr node);
    ExprPtr subscribed();
    ExprPtr call(ExprPtr node);
    ExprPtr test(ExprPtr node);
    ExprPtr list();
    ExprPtr dict();
    CallArgs call_args();
    std::string dotted_name();
    bool tuple_end(std::string_view end_name) const;
    ExprPtr binary(std::string op, size_t offset, ExprPtr left, ExprPtr right) const;
    ExprPtr simple_tuple(bool with_namespace, std::string_view end_name, bool in_parentheses);
    void measure(Expr& node) const;
    void check_targets(const Expr& node) const;
    void check_filter(Expr& node) const;
    void check_test(Expr& node) const;

    std::vector<Lexeme> lexemes_;
    size_t at_ = 0;
    int open_ = 0;  // recursion of the parser itself
};

}  // namespace bifocal::jinja
