// What --attention and layout files parse into, and what they refuse.
#include "mixers/spec.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "mixers/mixer.h"

namespace bifocal {
namespace {

std::string error_of(std::string_view text) {
    const auto spec = parse_mixer_spec(text);
    return spec.ok() ? "accepted" : spec.error().message();
}

// Errors of options come from the mixer.
std::string refusal(const std::string& text) {
    LayerContext context;
    context.d_model = 8;
    context.n_heads = context.n_kv_heads = 1;
    context.head_dim = 4;
    context.scale = 0.5f;
    const auto spec = parse_mixer_spec(text);
    if (!spec.ok()) return spec.error().message();
    const auto mixer = make_mixer(*spec, context);
    if (mixer.ok()) return "accepted";
    EXPECT_EQ(mixer.error().kind, ErrorKind::usage) << text;
    return mixer.error().message();
}

TEST(MixerSpec, ParsesKindsAndOptions) {
    const auto spec = parse_mixer_spec("sliding_window:window=508,sink_tokens=4,sink=learned");
    ASSERT_TRUE(spec.ok());
    EXPECT_EQ(spec->kind, "sliding_window");
    EXPECT_EQ(spec->options,
              nlohmann::json({{"window", 508}, {"sink_tokens", 4}, {"sink", "learned"}}));
    EXPECT_EQ(parse_mixer_spec("full")->kind, "full_attention");
    EXPECT_EQ(parse_mixer_spec("full_attention")->options, nlohmann::json::object());
}

TEST(MixerSpec, WritesWhatItReads) {
    for (const char* text : {"full_attention", "sliding_window:sink=learned,window=9",
                             "sliding_window:sink_logits=\"12\",window=9"}) {
        EXPECT_EQ(parse_mixer_spec(text)->to_string(), text);
    }
}

TEST(MixerSpec, RefusesWithAReason) {
    EXPECT_TRUE(error_of("slding_window:window=4")
                    .starts_with("attention 'slding_window:window=4': unknown mixer "
                                 "'slding_window': expected one of full, full_attention, "
                                 "sliding_window"))
        << error_of("slding_window:window=4");
    EXPECT_NE(error_of(""), "accepted");
    EXPECT_NE(error_of("full:"), "accepted");
    EXPECT_NE(error_of("sliding_window:window"), "accepted");
    EXPECT_NE(error_of("sliding_window:window="), "accepted");
    EXPECT_NE(error_of("sliding_window:=4"), "accepted");
    EXPECT_NE(error_of("sliding_window:window=4,"), "accepted");
    EXPECT_NE(error_of("sliding_window:window=4,window=5"), "accepted");
    EXPECT_NE(error_of("sliding_window:Window=4"), "accepted");
}

TEST(MixerSpec, OptionsOutOfRangeAreRefused) {
    EXPECT_EQ(refusal("sliding_window:window=5,sink_tokens=4"), "accepted");
    EXPECT_EQ(refusal("full:sink=learned"), "accepted");
    for (const char* text :
         {"sliding_window", "sliding_window:window=0", "sliding_window:window=-1",
          "sliding_window:window=4,sink_tokens=4", "sliding_window:window=4,sink_tokens=-1",
          "sliding_window:window=99999999999", "sliding_window:window=1e30",
          "sliding_window:window=18446744073709551615", "sliding_window:window=4.5",
          "sliding_window:window=true", "sliding_window:window=\"4\"", "sliding_window:window=four",
          "sliding_window:window=4,rewind=-1", "sliding_window:window=4,sink_positions=relative",
          "sliding_window:window=4,sink=both", "sliding_window:window=4,sink_logits=f",
          "full:window=4"}) {
        EXPECT_NE(refusal(text), "accepted") << text;
    }
    EXPECT_NE(refusal("full:window=4").find("sink"), std::string::npos) << "known ones are listed";
}

struct LayoutFile {
    std::string path = ::testing::TempDir() + "bifocal_layout_test.json";
    explicit LayoutFile(const std::string& text) { std::ofstream(path) << text; }
    ~LayoutFile() { std::remove(path.c_str()); }
};

Result<std::vector<MixerSpec>> read(const std::string& text, int64_t n_layers) {
    const LayoutFile file(text);
    return parse_attention("@" + file.path, n_layers);
}

TEST(Layout, OneMixerForAllLayersOrOneEach) {
    EXPECT_EQ(parse_attention("full", 3)->size(), 3u);
    const auto uniform = read(R"({"kind": "sliding_window", "window": 9})", 2);
    ASSERT_TRUE(uniform.ok()) << uniform.error().message();
    EXPECT_EQ((*uniform)[1].to_string(), "sliding_window:window=9");
    for (const char* form : {R"([{"kind": "full"}, {"kind": "sliding_window", "window": 9}])",
                             R"({"token_mixers": [{"kind": "full_attention"},
                                                  {"kind": "sliding_window", "window": 9}]})"}) {
        const auto each = read(form, 2);
        ASSERT_TRUE(each.ok()) << each.error().message();
        EXPECT_EQ((*each)[0].kind, "full_attention");
        EXPECT_EQ((*each)[1].to_string(), "sliding_window:window=9");
    }
    const auto texts = read(R"(["full", "sliding_window:window=9"])", 2);
    ASSERT_TRUE(texts.ok()) << texts.error().message();
    EXPECT_EQ((*texts)[1].to_string(), "sliding_window:window=9");
}

// Bytes that are not UTF-8, wherever a value may stand, come back as an error or as text.
TEST(Layout, BytesThatAreNotUtf8) {
    LayerContext context;
    context.d_model = 8;
    context.n_heads = context.n_kv_heads = 2;
    context.head_dim = 4;
    for (const char* spec :
         {"sliding_window:window=9\xD4", "sliding_window:window=9,sink=le\xD4\x8D\x9A\x88",
          "sliding_window:window=9,sink_tokens=\xFF", "sliding_window:win\xFFow=9",
          "sliding_window:window=9,sink=learned,sink_logits=\xFF\xFE", "slid\xFF:window=9"}) {
        const auto parsed = parse_mixer_spec(spec);
        if (!parsed.ok()) continue;
        EXPECT_FALSE(parsed->to_string().empty());
        const auto mixer = make_mixer(*parsed, context);
        EXPECT_TRUE(mixer.ok() || mixer.error().kind == ErrorKind::usage) << spec;
    }
}

TEST(Layout, RefusesWithAPlace) {
    const auto error = [](const std::string& text) {
        const auto layout = read(text, 2);
        if (layout.ok()) return std::string("accepted");
        EXPECT_EQ(layout.error().kind, ErrorKind::usage) << text;
        return layout.error().message();
    };
    EXPECT_NE(error(R"([{"kind": "full"}])").find("expected 2, got 1"), std::string::npos);
    EXPECT_NE(error(R"([{"kind": "full"}, {"kind": "foo"}])").find("layer 1"), std::string::npos);
    for (const char* text : {"", "3", "{}", "[1, 2]", "[[], []]", "[null, null]", R"("full")",
                             R"({"kind": 4})", R"({"kind": "full", "kind": "full"})",
                             R"({"token_mixers": 1})", R"({"token_mixers": [], "x": 1})",
                             R"([{"kind": "full"}, {"window": 4}])", R"([{"kind": "full"},])"}) {
        EXPECT_NE(error(text), "accepted") << text;
    }
    const auto missing = parse_attention("@/no/such/layout.json", 2);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().kind, ErrorKind::failure);
}

}  // namespace
}  // namespace bifocal
