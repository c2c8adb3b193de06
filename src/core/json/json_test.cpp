#include "core/json/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bifocal::json {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
    const auto json = parse(text, "test.json");
    return json.ok() ? "no error" : json.error().message();
}

TEST(StrictJson, parses_and_keeps_order_when_asked) {
    const auto json = parse(R"({"b": [1, -2, 2.5, "x\u00e9", null, true], "a": {}})", "x");
    ASSERT_TRUE(json.ok()) << json.error().message();
    EXPECT_EQ(json->dump(), "{\"a\":{},\"b\":[1,-2,2.5,\"x\xC3\xA9\",null,true]}");
    const auto ordered = parse_ordered(R"({"b": 1, "a": {"d": 2, "c": 3}})", "x");
    ASSERT_TRUE(ordered.ok());
    EXPECT_EQ(ordered->dump(), R"({"b":1,"a":{"d":2,"c":3}})");
    EXPECT_EQ(ordered->at("a").at("c"), 3);
    EXPECT_EQ(parse("7", "x").value(), 7);
}

TEST(StrictJson, repeated_keys_at_every_level) {
    EXPECT_THAT(error_of(R"({"a": 1, "a": 2})"),
                HasSubstr("test.json: a key occurs twice: got 'a'"));
    EXPECT_THAT(error_of(R"({"x": {"y": [0, {"a": 1, "\u0061": 2}]}})"),
                HasSubstr("test.json, x.y[1]: a key occurs twice"));
    EXPECT_EQ(error_of(R"({"a": {"a": {"a": 1}}, "b": {"a": 2}})"), "no error");
    EXPECT_FALSE(parse_ordered(R"({"a": 1, "a": 2})", "x").ok());
}

TEST(StrictJson, depth_is_bounded) {
    EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "no error");
    EXPECT_THAT(error_of(std::string(65, '[') + std::string(65, ']')),
                HasSubstr("nested too deeply"));
    EXPECT_THAT(error_of(std::string(1000000, '[')), HasSubstr("nested too deeply"));
    EXPECT_FALSE(parse(R"({"a":[]})", "x", {.depth = 1}).ok());
}

TEST(StrictJson, what_is_no_json) {
    for (const char* text :
         {"", " ", "{", "{\"a\":1,}", "[1,]", "[1] 2", "// c\n1", "NaN", "{a:1}", "'a'", "01",
          "\"\t\"", "\"\\x\"", "\"\xFF\"", "\"\xC0\x80\"", "\"\\ud800\"", "1e999"}) {
        EXPECT_THAT(error_of(text), HasSubstr("not valid JSON")) << text;
        EXPECT_THAT(error_of(text), HasSubstr("test.json, offset ")) << text;
    }
    EXPECT_FALSE(parse("[1, 2]", "x", {.bytes = 5}).ok());
}

TEST(StrictJson, typed_fields) {
    const Json json = parse(R"({"i": 3, "f": 3.0, "s": "x", "b": true, "n": null, "o": {"k": 1},
                               "is": [1, 2], "fs": [1, 2.5], "ss": ["a"], "u": 18446744073709551615})",
                            "x")
                          .value();
    const auto fields = Fields::of(json, "c.json");
    ASSERT_TRUE(fields.ok());
    EXPECT_EQ(fields->integer("i").value(), 3);
    EXPECT_EQ(fields->integer("n").value(), std::nullopt);
    EXPECT_EQ(fields->integer("missing").value(), std::nullopt);
    EXPECT_THAT(
        fields->integer("f").error().message(),
        HasSubstr(
            "c.json, key 'f': the value has the wrong type: expected an integer, got a fraction"));
    EXPECT_THAT(fields->integer("i", 4, 9).error().message(), HasSubstr("expected 4 to 9, got 3"));
    EXPECT_FALSE(fields->integer("u").ok());
    EXPECT_FALSE(fields->integer("b").ok());
    EXPECT_EQ(fields->number("i").value(), 3.0);
    EXPECT_FALSE(fields->number("s").ok());
    EXPECT_EQ(fields->boolean("b").value(), true);
    EXPECT_FALSE(fields->boolean("i").ok());
    EXPECT_EQ(fields->string("s").value(), "x");
    EXPECT_FALSE(fields->string("i").ok());
    EXPECT_EQ(fields->object("o").value()->integer("k").value(), 1);
    EXPECT_FALSE(fields->object("is").ok());
    EXPECT_EQ(fields->integers("is").value(), (std::vector<int64_t>{1, 2}));
    EXPECT_FALSE(fields->integers("fs").ok());
    EXPECT_EQ(fields->numbers("fs").value(), (std::vector<double>{1, 2.5}));
    EXPECT_EQ(fields->strings("ss").value(), (std::vector<std::string>{"a"}));
    EXPECT_FALSE(fields->strings("is").ok());
    EXPECT_FALSE(Fields::of(json.at("is"), "x").ok());
}

}  // namespace
}  // namespace bifocal::json
