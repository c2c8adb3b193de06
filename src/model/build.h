// From a spec and its checkpoint to a decoder that can run.
#pragma once

#include <vector>

#include "bifocal/model.h"
#include "model/decoder.h"
#include "model/weight_table.h"

namespace bifocal {

// `sinks`: tensors of a file that the user named, or empty; used before the checkpoint's.
// Fills in info.layers, info.head and info.weight_bytes.
Result<Decoder> build_decoder(ModelSpec spec, WeightFinder& finder, const WeightMap& sinks,
                              Precision precision, ModelInfo& info);

}  // namespace bifocal
