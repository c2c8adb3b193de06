// Turns a pretrained teacher into a student of any layout: the same weights where the layout knows
// them, new ones where it does not, in the student format (student.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "core/dtype.h"

namespace bifocal {

struct ConvertOptions {
    std::string attention = {};        // as Model's
    std::vector<int64_t> layers = {};  // which ones; empty: all. The others stay as they are
    std::optional<DType> dtype = {};   // of matrices; none: as stored, bf16 if quantised
    bool replaces = false;             // an existing folder
    uint64_t seed = 0;                 // of new weights that begin at random
    std::optional<std::string> calibration_text = {};  // for new learned sinks; none: they are 0
    int64_t calibration_first = 1;  // of the tokens that a window has dropped, these count
    std::function<void(int64_t done, int64_t total)> on_layer = {};
    std::function<void(int64_t done, int64_t total)> on_calibrated_layer = {};
};

struct Converted {
    int64_t n_tensors = 0, n_created = 0;  // all, and those the teacher did not have
    int64_t n_created_values = 0;
    int64_t n_calibrated = 0;  // of the created
    int64_t bytes = 0;         // of all tensors
};

// `teacher`: a .gguf file or a folder. `student`: a folder, which is whole or not there.
Result<Converted> convert_model(const std::string& teacher, const std::string& student,
                                const ConvertOptions& options);

}  // namespace bifocal
