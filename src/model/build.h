// From a spec and its checkpoint to a decoder that can run.
#pragma once

#include <vector>

#include "bifocal/model.h"
#include "model/decoder.h"
#include "model/weight_table.h"

namespace bifocal {

// Learned sink logits come from the file that a layer's mixer names in its option sink_logits, else
// from `options.sink_logits`, else from the checkpoint.
// Fills in info.layers, info.head and info.weight_bytes.
Result<Decoder> build_decoder(ModelSpec spec, WeightFinder& finder, const ModelOptions& options,
                              ModelInfo& info);

}  // namespace bifocal
