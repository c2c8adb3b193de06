// Splits a template into text and the tokens of its tags, with Jinja's white space rules for
// trim_blocks and lstrip_blocks switched on and the last newline dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bifocal::jinja {

enum class Token : uint8_t {
    data,         // text between tags
    print_begin,  // {{
    print_end,    // }}
    block_begin,  // {%
    block_end,    // %}
    name,
    string,
    integer,
    real,
    op,
    end,
};

struct Lexeme {
    Token token = Token::end;
    std::string text;  // data, name, operator, or string with its escapes resolved
    int64_t integer = 0;
    double real = 0;
    size_t offset = 0;  // bytes into the normalised source

    bool is_op(std::string_view op) const { return token == Token::op && text == op; }
    bool is_name(std::string_view name) const { return token == Token::name && text == name; }
};

// Newlines become "\n"; a single last one goes away.
std::string normalise_source(std::string_view source);

// REQUIRES: normalised, valid UTF-8. Throws Failure.
std::vector<Lexeme> tokenize(std::string_view source);

// "identifier" in the sense of Python, for one code point.
bool is_name_character(char32_t code);

}  // namespace bifocal::jinja
