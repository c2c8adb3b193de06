// The experts of a layer, from a checkpoint to what runs.
#pragma once

#include <memory>

#include "bifocal/model.h"
#include "model/weight_table.h"
#include "ops/moe.h"

namespace bifocal {

// Adds what it read and chose to `info`.
Result<std::unique_ptr<ops::Experts>> build_experts(const ModelSpec& spec, WeightFinder& finder,
                                                    Precision precision, int64_t layer,
                                                    LayerInfo& info);

}  // namespace bifocal
