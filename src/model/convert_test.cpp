// Students: what they are made of, that windowed ones are their teachers bit by bit, and what a
// reader refuses.
#include "model/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "formats/safetensors/file.h"
#include "model/model_spec.h"
#include "model/testing/checkpoint_copy.h"
#include "model/testing/golden.h"
#include "model/testing/run.h"

namespace bifocal {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Ne;

class Convert : public testing::CheckpointCopy {
  protected:
    std::string student() const { return folder_ / "student"; }
    void convert(const std::string& teacher, const std::string& attention,
                 ConvertOptions options = {}) {
        options.attention = attention;
        options.replaces = true;
        const auto made = convert_model(teacher, student(), options);
        ASSERT_TRUE(made.ok()) << made.error().message();
    }
    static std::vector<float> logits(const Model& model) {
        std::vector<int32_t> tokens;
        for (int32_t i = 0; i < 40; ++i) tokens.push_back((i * 37 + 5) % 90);
        return testing::all_logits(model.decoder(), tokens, 64);
    }
    void edit_student(const std::function<void(json::Json&)>& edit) {
        const std::string path = student() + "/config.json";
        json::Json config = json::read_file(path).value();
        edit(config);
        std::ofstream(path) << json::to_text(config);
    }
};

std::string golden(const std::string& name) {
    return BIFOCAL_SOURCE_DIR "/tests/golden/models/" + name;
}

TEST_F(Convert, AWindowedStudentIsItsTeacherBitByBit) {
    for (const char* name : {"llama", "llama_tied", "llama3_rope", "mistral", "phi3", "qwen2",
                             "qwen3", "smollm3", "gemma3", "gpt_oss", "gpt_oss_mxfp4", "qwen3_5",
                             "qwen3_5_whole", "qwen3_next", "kimi_linear"}) {
        for (const std::string attention :
             {"sliding_window:window=9", "sliding_window:window=12,sink_tokens=4", "full"}) {
            convert(golden(name), attention);
            const Model student = testing::load_exact(this->student());
            const Model teacher =
                Model::load(golden(name), {.attention = attention, .exact = true}).value();
            EXPECT_EQ(logits(student), logits(teacher)) << name << ", " << attention;
            for (size_t i = 0; i < student.info().layers.size(); ++i)
                EXPECT_EQ(student.spec().layers[i].mixer.to_string(),
                          teacher.info().layers[i].mixer);
        }
    }
}

// A copy of llama_tied that knows letters.
class Calibrate : public Convert {
  protected:
    void SetUp() override {
        Convert::SetUp();
        copy("llama_tied");
        json::Json vocab = json::Json::object();
        for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
        vocab["ab"] = 26;
        const json::Json tokenizer = {
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}}}};
        std::ofstream(folder_ / "tokenizer.json") << json::to_text(tokenizer);
    }
    Result<Converted> calibrated(const std::string& attention, std::optional<std::string> text,
                                 int64_t n_first = 1) {
        ConvertOptions options;
        options.attention = attention;
        options.replaces = true;
        options.calibration_text = std::move(text);
        options.calibration_first = n_first;
        return convert_model(folder_, student(), options);
    }
    std::vector<float> sinks() const {
        const auto file = safetensors::File::open(student() + "/model.safetensors").value();
        std::vector<float> all;
        for (const safetensors::TensorInfo& info : file.tensors()) {
            if (!info.name.ends_with("self_attn.sinks")) continue;
            const Tensor tensor = file.tensor(info.name).value();
            const auto* const at = reinterpret_cast<const float*>(tensor.bytes.data());
            all.insert(all.end(), at, at + tensor.elems());
        }
        return all;
    }
};

TEST_F(Calibrate, NewSinksBeginAsWhatTheWindowLosesOnAText) {
    std::string text, other;
    for (int i = 0; i < 90; ++i) text += static_cast<char>('a' + i * 7 % 26);
    for (int i = 0; i < 90; ++i) other += static_cast<char>('a' + i * 5 % 11);
    for (const std::string attention :
         {"sliding_window:window=9,sink=learned", "bifocal:window=7,far=mlstm,sink=learned"}) {
        ASSERT_TRUE(calibrated(attention, std::nullopt).ok());
        EXPECT_THAT(sinks(), Each(0.0f)) << attention;
        const auto made = calibrated(attention, text);
        ASSERT_TRUE(made.ok()) << made.error().message();
        EXPECT_GT(made->n_calibrated, 0);
        const std::vector<float> on_text = sinks();
        EXPECT_THAT(on_text, Each(AllOf(Ne(0.0f), Gt(-9.0f), Lt(9.0f)))) << attention;
        ASSERT_TRUE(calibrated(attention, text, 50).ok());
        const std::vector<float> on_more = sinks();
        for (size_t i = 0; i < on_text.size(); ++i) EXPECT_GT(on_more[i], on_text[i]) << attention;
        ASSERT_TRUE(calibrated(attention, other).ok());
        EXPECT_NE(sinks(), on_text) << attention;
    }
}

TEST_F(Calibrate, WhatCannotBeIsSaid) {
    const auto refusal = [&](const std::string& attention, const std::string& text) {
        const auto made = calibrated(attention, text);
        EXPECT_FALSE(std::filesystem::exists(student()));
        return made.ok() ? std::string("accepted") : made.error().message();
    };
    EXPECT_THAT(refusal("sliding_window:window=9", "text"), HasSubstr("nothing to calibrate"));
    EXPECT_THAT(refusal("sliding_window:window=900,sink=learned", "tooshort"),
                AllOf(HasSubstr("too short"), HasSubstr("more than 900 tokens")));
    std::filesystem::remove(folder_ / "tokenizer.json");
    EXPECT_THAT(refusal("sliding_window:window=9,sink=learned", "text"), HasSubstr("no tokenizer"));
}

TEST_F(Convert, ExpertsAndLayersThatStayAreTheTeachersOwn) {
    ConvertOptions options;
    options.layers = {1};
    options.dtype = DType::bf16;  // what they are stored as, but for packed codes
    for (const auto& [name, attention] :
         {std::pair{"minimax", "full"}, std::pair{"gpt_oss", "full:sink=learned"},
          std::pair{"gpt_oss_mxfp4", "full:sink=learned"}}) {
        convert(golden(name), attention, options);
        const Model student = testing::load_exact(this->student());
        EXPECT_EQ(student.notes(), std::vector<std::string>{}) << name;
        EXPECT_EQ(logits(student), logits(testing::load_exact(golden(name)))) << name;
    }
}

TEST_F(Convert, AGgufTeacherGivesTheSame) {
    for (const char* name : {"llama_tied", "qwen3", "qwen3_5", "qwen3_next"}) {
        const std::string file = golden(name) + "/model.gguf";
        convert(file, "sliding_window:window=9");
        const Model student = testing::load_exact(this->student());
        const Model teacher =
            Model::load(file, {.attention = "sliding_window:window=9", .exact = true}).value();
        EXPECT_EQ(logits(student), logits(teacher)) << name;
    }
}

TEST_F(Convert, AGgufTeacherThatConfigJsonHasNoWordsForIsRefused) {
    const auto made =
        convert_model(golden("qwen2") + "/model.gguf", student(), {.attention = "full"});
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(made.error().message(),
                AllOf(HasSubstr("scaling of positions"), HasSubstr("Hugging Face folder")));
    const auto experts =
        convert_model(golden("gpt_oss") + "/model.gguf", student(), {.attention = "full"});
    ASSERT_FALSE(experts.ok());
    EXPECT_THAT(experts.error().message(), HasSubstr("experts"));
    EXPECT_FALSE(std::filesystem::exists(student()));
}

TEST_F(Convert, EveryLayoutCanBeMadeAndRun) {
    for (const std::string attention :
         {"sliding_window:window=9,sink=learned", "bifocal:window=9,far=mlstm,sink=learned",
          "bifocal:window=9,far=mlstm,state_heads=q", "bifocal:window=9,far=liger,mix=half",
          "bifocal:window=9,far=gdn", "bifocal:window=9,far=kda", "bifocal:window=9,far=gla",
          "linear:rule=gdn", "linear:rule=mlstm", "linear:rule=gla", "linear:rule=mamba2",
          "linear:rule=kda", "linear:rule=lightning", "linear:rule=dijiang",
          "linear:rule=linear_attention"}) {
        for (const char* name : {"qwen3", "qwen3_5"}) {
            convert(golden(name), attention);
            const Model model = testing::load_exact(student());
            EXPECT_EQ(model.notes(), std::vector<std::string>{}) << attention;
            for (const float logit : logits(model)) ASSERT_TRUE(std::isfinite(logit)) << attention;
        }
    }
}

// A student's native linear layers are the teacher's, and its Bifocal ones keep the output gate.
TEST_F(Convert, OnlySoftmaxLayersOfAMixedTeacherChange) {
    convert(golden("qwen3_5"), "bifocal:window=9,far=gdn");
    const Model model = testing::load_exact(student());
    EXPECT_THAT(model.info().layers[0].mixer, HasSubstr("form=qwen"));
    EXPECT_THAT(model.info().layers[1].mixer, HasSubstr("bifocal:"));
    EXPECT_THAT(model.info().layers[1].weights,
                ::testing::Contains(HasSubstr("self_attn.q_proj.weight bf16 [128, 32]")));
    // A linear layer of the layout begins with the teacher's queries and leaves the gate behind.
    convert(golden("qwen3_5"), "linear:rule=gdn");
    const safetensors::File made =
        safetensors::File::open(student() + "/model.safetensors").value();
    const safetensors::File source =
        safetensors::File::open(golden("qwen3_5") + "/model.safetensors").value();
    for (const char* kind : {"weight", "bias"}) {
        const std::string name = std::string("q_proj.") + kind;
        const Tensor begun = made.tensor("model.layers.1.linear_attn." + name).value();
        const Tensor teacher = source.tensor("model.layers.1.self_attn." + name).value();
        ASSERT_EQ(begun.shape[0], 64);
        for (int64_t h = 0; h < 4; ++h)
            EXPECT_TRUE(std::ranges::equal(begun.rows(16 * h, 16 * h + 16).bytes,
                                           teacher.rows(32 * h, 32 * h + 16).bytes));
    }
    const auto none =
        convert_model(golden("qwen3_5"), student() + "2", {.attention = "full", .layers = {0, 2}});
    ASSERT_FALSE(none.ok());
    EXPECT_THAT(none.error().message(), HasSubstr("are linear in this model"));
}

TEST_F(Convert, WhatATeacherLacksIsNotInvented) {
    std::ofstream(folder_ / "layout.json") << R"(["full", "full", "full"])";
    const auto made = convert_model(golden("qwen3_5"), student(),
                                    {.attention = "@" + (folder_ / "layout.json").string()});
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(made.error().message(),
                AllOf(HasSubstr("missing tensor"), HasSubstr("layers.0.self_attn.")));
}

TEST_F(Convert, AShutGateIsTheWindow) {
    for (const char* name : {"qwen3", "qwen3_5"}) {
        convert(golden(name), "bifocal:window=9,far=mlstm");
        const std::string path = student() + "/model.safetensors";
        const safetensors::File file = safetensors::File::open(path).value();
        Tensors tensors;
        for (const safetensors::TensorInfo& info : file.tensors()) {
            Tensor tensor = file.tensor(info.name).value();
            if (info.name.ends_with("mix_gate.bias"))
                tensor = make_tensor_f32(
                    tensor.shape, std::vector<float>(static_cast<size_t>(tensor.elems()), -1e9f));
            tensors.push_back({info.name, tensor});
        }
        ASSERT_TRUE(safetensors::write_file(path + ".new", tensors).ok());
        std::filesystem::rename(path + ".new", path);
        const Model teacher =
            Model::load(golden(name), {.attention = "sliding_window:window=9", .exact = true})
                .value();
        EXPECT_EQ(logits(testing::load_exact(student())), logits(teacher)) << name;
    }
}

TEST_F(Convert, SomeLayersOnly) {
    ConvertOptions options;
    options.layers = {1};
    convert(golden("llama"), "linear:rule=gdn", options);
    const Model model = testing::load_exact(student());
    EXPECT_EQ(model.info().layers[0].mixer, "full_attention:sink=none");
    EXPECT_THAT(model.info().layers[1].mixer, HasSubstr("rule=gdn"));
    options.layers = {99};
    options.attention = "full";
    EXPECT_THAT(convert_model(golden("llama"), student() + "2", options).error().message(),
                HasSubstr("got 99"));
}

TEST_F(Convert, TheSameSeedGivesTheSameFiles) {
    const auto bytes = [&] {
        std::ifstream file(student() + "/model.safetensors", std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    convert(golden("llama"), "linear:rule=gdn");
    const std::string first = bytes();
    convert(golden("llama"), "linear:rule=gdn");
    EXPECT_EQ(bytes(), first);
    convert(golden("llama"), "linear:rule=gdn", {.seed = 1});
    EXPECT_NE(bytes(), first);
}

TEST_F(Convert, AFolderThatIsThereStaysUnlessAsked) {
    std::filesystem::create_directory(student());
    const auto made = convert_model(golden("llama"), student(), {.attention = "full"});
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(made.error().message(), AllOf(HasSubstr(student()), HasSubstr("--force")));
    EXPECT_TRUE(std::filesystem::is_empty(student()));
    // What fails leaves nothing behind, and what was there as it was.
    convert(golden("llama"), "full");
    EXPECT_FALSE(convert_model(golden("llama"), student(),
                               {.attention = "linear:rule=none", .replaces = true})
                     .ok());
    EXPECT_EQ(message_of(student()), "loaded");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// A limit on the size of files stands for the disk: no half student is left, and one that was to be
// replaced stays.
TEST_F(Convert, AFullDiskLeavesNoHalfStudent) {
    const auto files = [&] {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
            names.push_back(entry.path());
        std::ranges::sort(names);
        return names;
    };
    ConvertOptions options;
    options.attention = "bifocal:window=9,far=mlstm";
    options.replaces = true;
    const auto convert_on_full_disk = [&] {
        const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
        rlimit before{};
        getrlimit(RLIMIT_FSIZE, &before);
        const rlimit little{10'000, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &little);
        const auto made = convert_model(golden("llama_tied"), student(), options);
        setrlimit(RLIMIT_FSIZE, &before);
        (void)std::signal(SIGXFSZ, ignored);
        EXPECT_FALSE(made.ok());
        return made.ok() ? std::string("converted") : made.error().message();
    };
    EXPECT_THAT(convert_on_full_disk(), HasSubstr("model.safetensors"));
    EXPECT_EQ(files(), std::vector<std::string>{});
    convert(golden("llama_tied"), "sliding_window:window=9");
    const std::vector<std::string> whole = files();
    convert_on_full_disk();
    EXPECT_EQ(files(), whole);
    EXPECT_EQ(testing::load_exact(student()).spec().layers[0].mixer.kind, "sliding_window");
}

TEST_F(Convert, WhatAReaderRefuses) {
    const auto refused = [&](const std::function<void(json::Json&)>& edit) {
        convert(golden("llama"), "sliding_window:window=9");
        edit_student(edit);
        return message_of(student());
    };
    EXPECT_THAT(refused([](auto& c) { c["bifocal_format_version"] = 2; }),
                AllOf(HasSubstr("newer format"), HasSubstr("got 2")));
    EXPECT_THAT(refused([](auto& c) { c.erase("bifocal_format_version"); }), HasSubstr("missing"));
    EXPECT_THAT(refused([](auto& c) { c["token_mixers"][0]["windw"] = 3; }), HasSubstr("windw"));
    EXPECT_THAT(refused([](auto& c) { c["token_mixers"][0]["kind"] = "slide"; }),
                HasSubstr("slide"));
    EXPECT_THAT(refused([](auto& c) { c["layer_types"][1] = "full_attention"; }),
                AllOf(HasSubstr("layer_types"), HasSubstr("token_mixers[1]")));
    EXPECT_THAT(refused([](auto& c) { c["token_mixers"].erase(0); }), HasSubstr("got 1"));
    EXPECT_THAT(refused([](auto& c) { c["base_model_type"] = "otter"; }), HasSubstr("otter"));
}

TEST_F(Convert, WeightsThatALayoutMissesAreNamed) {
    const auto model = Model::load(golden("llama"), {.attention = "linear:rule=gdn"});
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.error().message(),
                AllOf(HasSubstr("linear_attn."), HasSubstr("bifocal convert")));
}

}  // namespace
}  // namespace bifocal
