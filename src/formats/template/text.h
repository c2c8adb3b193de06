// Text of a template: UTF-8 bytes with the ranges that came from the user. The ranges survive every
// operation, so that the tokenizer can look for control tokens only in what the template wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bifocal::jinja {

struct Span {
    size_t begin = 0;  // bytes
    size_t end = 0;
};

struct Text {
    std::string bytes;
    std::vector<Span> user;  // sorted, disjoint, not empty, never touching
    bool markup = false;     // result of `safe` or `escape`: adding to it escapes the other side

    bool from_user(size_t byte) const;
    bool any_user() const { return !user.empty(); }
    void append(std::string_view more, bool is_user);
    void append(const Text& more) { append(more, 0, more.bytes.size()); }
    void append(const Text& more, size_t begin, size_t end);
    Text slice(size_t begin, size_t end) const;
    void mark_all();
};

// One code point with its origin; what case mapping and padding work on.
struct Letter {
    char32_t code = 0;
    bool user = false;
};

std::vector<Letter> letters(const Text& text);
Text from_letters(const std::vector<Letter>& letters);

size_t count_code_points(std::string_view bytes);
// REQUIRES: valid UTF-8, at < bytes.size(). Moves `at` behind the code point.
char32_t next_code_point(std::string_view bytes, size_t& at);
// Byte offset of code point `index`; bytes.size() when there are fewer.
size_t byte_of_code_point(std::string_view bytes, size_t index);

// Python's notion of white space, which str.strip, str.split and the tag trimming share.
bool is_space(char32_t code);
// Byte range of `bytes` without white space, or without any code point of `drop`, at its ends.
Span stripped(std::string_view bytes, bool left, bool right, std::string_view drop,
              bool drop_space);

}  // namespace bifocal::jinja
