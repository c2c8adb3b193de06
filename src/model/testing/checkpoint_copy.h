// A copy of a golden checkpoint in a folder of its own, which a test may damage or rewrite.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bifocal/model.h"
#include "core/json/json.h"
#include "formats/safetensors/file.h"
#include "formats/safetensors/writer.h"

namespace bifocal::testing {

class CheckpointCopy : public ::testing::Test {
  public:
    using Tensors = std::vector<safetensors::NamedTensor>;

  protected:
    void SetUp() override {
        const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
        folder_ =
            std::filesystem::temp_directory_path() / ("bifocal_" + std::to_string(getpid()) + "_" +
                                                      test.test_suite_name() + "_" + test.name());
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void copy(const std::string& name) {
        const auto golden =
            std::filesystem::path(BIFOCAL_SOURCE_DIR) / "tests/golden/models" / name;
        for (const auto& entry : std::filesystem::directory_iterator(golden))
            std::filesystem::copy(entry.path(), folder_ / entry.path().filename(),
                                  std::filesystem::copy_options::overwrite_existing);
    }
    void edit_config(const std::function<void(json::Json&)>& edit) {
        const std::string path = folder_ / "config.json";
        json::Json config = json::read_file(path).value();
        edit(config);
        std::ofstream(path) << config.dump();
    }
    // Writes model.safetensors again.
    void edit_tensors(const std::function<void(Tensors&)>& edit) {
        const std::string path = folder_ / "model.safetensors";
        const safetensors::File file = safetensors::File::open(path).value();
        Tensors tensors;
        for (const safetensors::TensorInfo& info : file.tensors())
            tensors.push_back({info.name, file.tensor(info.name).value()});
        edit(tensors);
        ASSERT_TRUE(safetensors::write_file(folder_ / "new", tensors).ok());
        std::filesystem::rename(folder_ / "new", path);
    }
    // "loaded", or the one line that says why not.
    std::string message(const ModelOptions& options = {}) const {
        return message_of(folder_, options);
    }
    static std::string message_of(const std::string& path, const ModelOptions& options = {}) {
        const Result<Model> model = Model::load(path, options);
        if (model.ok()) return "loaded";
        const std::string text = model.error().message();
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        return text;
    }

    std::filesystem::path folder_;
};

}  // namespace bifocal::testing
