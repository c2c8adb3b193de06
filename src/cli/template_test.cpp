// `bifocal template` without the command line: where its inputs come from and what it refuses.
#include "cli/template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace bifocal::cli {
namespace {

namespace fs = std::filesystem;

class TemplateCommand : public testing::Test {
  protected:
    void SetUp() override {
        folder_ =
            fs::temp_directory_path() / ("bifocal_cli_template_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        request_.template_file =
            write("t.jinja",
                  "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                  "{% endfor %}{{ tools | length if tools }}{{ x }}"
                  "{% if add_generation_prompt %}>{% endif %}");
        request_.messages = write("m.json", R"([{"role": "user", "content": "Hi"}])");
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string write(const char* name, const std::string& text) {
        const std::string path = (folder_ / name).string();
        std::ofstream(path) << text;
        return path;
    }
    std::string run() {
        const auto text = render_template(request_);
        return text.ok() ? *text : text.error().message();
    }
    bool refuses(const char* part) { return run().find(part) != std::string::npos; }

    fs::path folder_;
    TemplateRequest request_;
};

TEST_F(TemplateCommand, RendersFilesAndSettings) {
    EXPECT_EQ(run(), "user: Hi\n>");
    request_.generation_prompt = false;
    request_.settings = {"x=\"a=b\""};
    request_.tools = write("tools.json", R"([{"type": "function"}])");
    EXPECT_EQ(run(), "user: Hi\n1a=b");
    request_.settings = {"x=1", "x=[2]"};
    EXPECT_EQ(run(), "user: Hi\n1[2]");
}

TEST_F(TemplateCommand, TakesTemplateAndTokensFromAFolder) {
    write("tokenizer_config.json",
          R"({"chat_template": "own {{ bos_token }}", "bos_token": "<s>"})");
    request_.model = folder_.string();
    EXPECT_EQ(run(), "<s>user: Hi\n>");  // the file's template with the model's tokens
    request_.template_file.clear();
    EXPECT_EQ(run(), "own <s>");
}

TEST_F(TemplateCommand, RefusesWhatItCannotRead) {
    write("m.json", R"([{"role": "user", "content": "a"}, {"role": "pirate", "content": "b"}])");
    EXPECT_TRUE(refuses("m.json, message 1: unknown role")) << run();
    write("m.json", "[");
    EXPECT_FALSE(render_template(request_).ok());
    request_.messages = (folder_ / "none.json").string();
    EXPECT_TRUE(refuses("cannot open the file")) << run();
    request_.messages = write("m.json", R"([{"role": "user", "content": "a"}])");
    request_.settings = {"x=oops"};
    ASSERT_FALSE(render_template(request_).ok());
    EXPECT_EQ(render_template(request_).error().kind, ErrorKind::usage);
    request_.settings = {"x"};
    EXPECT_TRUE(refuses("key=JSON")) << run();
    request_.settings.clear();
    write("t.jinja", "a\n{% include 'x' %}");
    EXPECT_TRUE(refuses("t.jinja, line 2, column 4: unsupported tag 'include'")) << run();
    request_.template_file.clear();
    request_.model = (folder_ / "none.gguf").string();
    EXPECT_FALSE(render_template(request_).ok());
}

}  // namespace
}  // namespace bifocal::cli
