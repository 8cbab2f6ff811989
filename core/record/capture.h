// Capture: from pending nodes to what they compute and the key under which its plan is found again.
//
// Invariants: equal keys mean equal plans. Thread safety: the nodes without a value belong to the calling thread.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

// Collects everything `roots` need. Nodes held by a Tensor become outputs.
Capture capture(std::span<const NodePtr> roots);

}  // namespace heddle
