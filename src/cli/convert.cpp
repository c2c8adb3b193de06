// `bifocal convert`: a pretrained model in, the same model with another layout out.
#include "model/convert.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/model_args.h"
#include "cli/report.h"
#include "cli/text_input.h"
#include "core/progress.h"

namespace bifocal::cli {
namespace {

constexpr const char* kExample =
    "example:\n"
    "  bifocal convert --attention bifocal:window=448,far=mlstm,sink=learned -o student\n"
    "  bifocal convert --attention sliding_window:window=508,sink_tokens=4 --layers 2-29 -o "
    "student";

struct ConvertArgs {
    std::string model, attention, out, dtype, layers, calibrate;
    int64_t calibrate_first = 1;
    uint64_t seed = 0;
    bool force = false;
};

// "0-9,15": whole numbers and ranges.
Result<std::vector<int64_t>> parse_layers(const std::string& text) {
    std::vector<int64_t> layers;
    const Error bad{.what = "a list of layers has a wrong form",
                    .where = "--layers",
                    .expected = "numbers and ranges, such as 0-9,15",
                    .got = "'" + text + "'",
                    .kind = ErrorKind::usage};
    size_t at = 0;
    const auto number = [&](int64_t& value) {
        const size_t begin = at;
        for (value = 0; at < text.size() && text[at] >= '0' && text[at] <= '9' && at < begin + 6;)
            value = 10 * value + (text[at++] - '0');
        return at > begin;
    };
    while (at < text.size()) {
        int64_t first = 0, last = 0;
        if (!number(first)) return bad;
        last = first;
        if (at < text.size() && text[at] == '-') {
            ++at;
            if (!number(last) || last < first) return bad;
        }
        for (int64_t i = first; i <= last; ++i) layers.push_back(i);
        if (at == text.size()) break;
        if (text[at] != ',' || ++at == text.size()) return bad;
    }
    return layers;
}

Status convert(const ConvertArgs& args) {
    ConvertOptions options;
    options.attention = args.attention;
    BIFOCAL_TRY(options.layers, parse_layers(args.layers));
    if (!args.dtype.empty()) options.dtype = dtype_from_name(args.dtype);
    options.replaces = args.force;
    options.seed = args.seed;
    if (!args.calibrate.empty()) {
        const TextArgs text{.text = {}, .file = args.calibrate, .has_file = true};
        BIFOCAL_TRY(options.calibration_text, read_text(text, "calibration text"));
        options.calibration_first = args.calibrate_first;
    }
    std::unique_ptr<Progress> calibrating, progress;
    options.on_calibrated_layer = [&](int64_t done, int64_t total) {
        if (!calibrating) calibrating = std::make_unique<Progress>("calibrating", total, "layers");
        calibrating->update(done);
    };
    options.on_layer = [&](int64_t done, int64_t total) {
        calibrating.reset();
        if (!progress) progress = std::make_unique<Progress>("converting", total, "layers");
        progress->update(done);
    };
    BIFOCAL_TRY(const std::string model, find_model(args.model));
    BIFOCAL_TRY(const Converted made, convert_model(model, args.out, options));
    progress.reset();
    fmt::print(
        "{}",
        list(
            {{"student", args.out},
             {"layout", args.attention},
             {"tensors", fmt::format("{}, {}", count_text(made.n_tensors), bytes_text(made.bytes))},
             {"new", made.n_created == 0 ? std::string("none: the teacher has them all")
                                         : fmt::format("{} tensors, {} numbers, untrained",
                                                       count_text(made.n_created),
                                                       count_text(made.n_created_values))}}));
    if (made.n_calibrated > 0)
        fmt::print("sinks of {} layers are calibrated on {}\n", made.n_calibrated, args.calibrate);
    return {};
}

}  // namespace

void add_convert_command(CLI::App& app, int& exit_status) {
    auto args = std::make_shared<ConvertArgs>();
    CLI::App* const sub =
        app.add_subcommand("convert", "writes a model again with another attention layout");
    sub->footer(kExample);
    sub->add_option("-m,--model", args->model,
                    "the teacher: a .gguf file or a Hugging Face folder; default as in run");
    sub->add_option("--attention", args->attention, "layout of the student, as in run")->required();
    sub->add_option("-o,--output", args->out, "folder to write")->required();
    sub->add_option("--layers", args->layers,
                    "only these, such as 0-9,15; the others keep the teacher's");
    sub->add_option("--dtype", args->dtype,
                    "of matrices; default: as stored, bf16 if they are quantised")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}));
    sub->add_option(
        "--calibrate", args->calibrate,
        "text on which new learned sinks become what the first token gets; else they are 0");
    sub->add_option("--calibrate-first", args->calibrate_first,
                    "so many of the tokens that the window has dropped count instead")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
        ->capture_default_str();
    sub->add_option("-s,--seed", args->seed, "of new weights that begin at random")
        ->capture_default_str();
    sub->add_flag("--force", args->force, "replace a folder that is there");
    sub->callback([args, &exit_status] {
        const Status status = convert(*args);
        if (!status.ok()) exit_status = report(status.error());
    });
}

}  // namespace bifocal::cli
