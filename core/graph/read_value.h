// The value of a node, read from its device.
//
// Purpose: observations, judges of watched values and the reference evaluator look at values through these. Invariants:
// the node has a value; its work may still be under way, and the read waits for it. Errors: ValueError where the memory
// was overwritten in place since. Thread safety: as DeviceContext::read().
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/base/host_array.h"
#include "heddle/core/graph/node.h"

namespace heddle {

// Gathered through the node's view, row-major: as stored, or as numbers.
std::vector<uint8_t> read_bytes(const Node& node);
HostArray read_value(const Node& node);

}  // namespace heddle
