// A 64-bit name for a set of weights, so that a snapshot finds out whether it meets its own model.
// Not cryptographic: it tells mistakes apart, not attacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/model_spec.h"
#include "model/weight_table.h"

namespace bifocal {

// Four independent lanes of 8-byte words, so that it runs as fast as memory does.
uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed);

// Over the numbers of the spec (but not which mixer a layer has: a snapshot stores its layout
// apart) and every tensor's name, type, shape and bytes, in the order of names.
uint64_t model_identity(const ModelSpec& spec, const WeightMap& tensors);

}  // namespace bifocal
