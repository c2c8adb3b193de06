// `bifocal template` without the command line.
#pragma once

#include <string>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::cli {

struct TemplateRequest {
    std::string model;          // GGUF file or model folder; its special tokens count in any case
    std::string template_file;  // instead of the model's own
    std::string messages;       // JSON file, "-": standard input
    std::string tools;          // JSON file; "": none
    std::vector<std::string> settings;  // "key=JSON"
    bool generation_prompt = true;
};

Result<std::string> render_template(const TemplateRequest& request);

}  // namespace bifocal::cli
