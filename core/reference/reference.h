// The reference evaluator: the living definition of every op, in double precision on the host.
//
// Purpose: the oracle of all tests and the engine of the reference device. Floating values are computed and kept in
// double whatever their dtype; rounding happens at `cast` to a narrower type and when a value is stored. Integers are
// computed in int64 and wrap to their dtype after each op. Invariants: evaluates nodes as recorded (no simplification,
// no fusion), one by one. Thread safety: pure but for memory.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/base/host_array.h"
#include "heddle/core/graph/node.h"

namespace heddle {

// Values of `outputs`. Nodes that have a value are read from their device; the others are evaluated recursively
// (iteratively: no stack limit).
std::vector<HostArray> evaluate_reference(std::span<const NodePtr> outputs);

// While one lives, this thread's evaluations round every value of every node to its dtype, as a device does that stores
// each of them: what the tests of f16 and bf16 ask, because fused kernels keep more digits than a user can count on.
class RoundingScope {
 public:
  RoundingScope();
  ~RoundingScope();
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

}  // namespace heddle
