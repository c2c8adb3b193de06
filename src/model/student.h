// The student format: a Hugging Face folder whose config.json is that of the teacher's family with
// a layout on top. `token_mixers` has one entry for each layer, the same structure that --attention
// and @layout.json parse into; it is authoritative, and `layer_types` must agree with it.
#pragma once

#include <string>

#include "core/json/json.h"
#include "model/families/family.h"
#include "model/model_spec.h"

namespace bifocal {

inline constexpr const char* kStudentModelType = "bifocal";
inline constexpr int64_t kStudentFormatVersion = 1;

// Whether a config.json is a student's.
bool is_student(const json::Fields& config);
// The family of the teacher that a student was made of.
Result<const Family*> student_teacher(const json::Fields& config);
// The spec of the teacher's family with the student's layout.
Result<ModelSpec> spec_from_student(const Family& family, const json::Fields& config,
                                    int64_t tokens);

// `teacher`: a config.json of the family, every field explicit; `layout`: of every layer.
json::OrderedJson student_config(const Family& family, json::OrderedJson teacher,
                                 const std::vector<MixerSpec>& layout);
// config.json of a model that came from a GGUF file; an error for what it has no words for.
Result<json::OrderedJson> config_of(const Family& family, const ModelSpec& spec,
                                    const std::string& where);

}  // namespace bifocal
