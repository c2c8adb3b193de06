// Finds templates in folders and in the real model, whose template is rendered as jinja2 renders
// it.
#include "formats/template/find_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "formats/template/chat_template.h"

namespace bifocal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = BIFOCAL_SOURCE_DIR "/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";

class FindTemplate : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("bifocal_template_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }
    void write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }
    std::string found() {
        const auto result = find_template(folder_.string());
        if (!result.ok()) return result.error().message().substr(folder_.string().size());
        std::string text = result->source;
        for (const auto& [name, token] : result->special_tokens) text += " " + name + "=" + token;
        return text;
    }
    fs::path folder_;
};

TEST_F(FindTemplate, JinjaFileWinsAndTokensComeFromTheConfig) {
    write("chat_template.jinja", "own");
    write(
        "tokenizer_config.json",
        R"({"chat_template": "other", "bos_token": "<s>", "eos_token": {"content": "</s>"}, "x_token": null})");
    EXPECT_EQ(found(), "own bos_token=<s> eos_token=</s>");
}

TEST_F(FindTemplate, ConfigHoldsAStringOrNamedTemplates) {
    write("tokenizer_config.json", R"({"chat_template": "text"})");
    EXPECT_EQ(found(), "text");
    write(
        "tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
    EXPECT_EQ(found(), "b");
    write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "a"}]})");
    EXPECT_NE(found().find("no chat template is named 'default'"), std::string::npos);
    write("tokenizer_config.json", R"({"chat_template": 5})");
    EXPECT_NE(found().find("wrong type"), std::string::npos);
}

TEST_F(FindTemplate, AbsenceIsAnError) {
    EXPECT_NE(found().find("the model has no chat template"), std::string::npos);
    write("tokenizer_config.json", "{}");
    EXPECT_NE(found().find("the model has no chat template"), std::string::npos);
    EXPECT_FALSE(find_template((folder_ / "nothing.gguf").string()).ok());
    EXPECT_FALSE(read_template(folder_.string()).ok());
}

// Rendered by jinja2 3.1.6 from the template in the file.
TEST(FindTemplateInModel, RendersTheRealTemplate) {
    if (!fs::exists(kModel)) GTEST_SKIP() << "the model is not here";
    const auto found = find_template(kModel);
    ASSERT_TRUE(found.ok()) << found.error().message();
    const auto chat = ChatTemplate::compile(found->source, found->where);
    ASSERT_TRUE(chat.ok()) << chat.error().message();
    std::ifstream file(BIFOCAL_SOURCE_DIR "/tests/golden/template/smollm2.jsonl");
    std::string line;
    std::getline(file, line);  // versions
    size_t cases = 0;
    for (; std::getline(file, line); ++cases) {
        const auto golden = nlohmann::ordered_json::parse(line);
        ChatInputs inputs;
        inputs.messages = golden["messages"];
        inputs.add_generation_prompt = golden["prompt"].get<bool>();
        inputs.special_tokens = found->special_tokens;
        const auto rendered = chat->render(inputs);
        ASSERT_TRUE(rendered.ok()) << rendered.error().message();
        EXPECT_EQ(rendered->text, golden["expected"].get<std::string>());
    }
    EXPECT_GE(cases, 10u);
}

}  // namespace
}  // namespace bifocal
