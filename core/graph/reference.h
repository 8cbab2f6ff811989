// The reference evaluator: the living definition of every op, in double precision on the host.
//
// Purpose: the oracle of all tests and the engine of the reference device. Floating values are computed and kept in double whatever their
// dtype; rounding happens at `cast` to a narrower type and when a value is stored. Integers are computed in int64 and wrap to their dtype
// after each op. Invariants: evaluates nodes as recorded (no simplification, no fusion), one by one.
// Thread safety: pure but for memory.
#pragma once

#include <span>
#include <vector>

#include "core/graph/node.h"

namespace heddle {

// One value on the host, row-major: `floats` for floating dtypes, `ints` for integers and bool.
struct HostArray {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  double at(size_t i) const { return is_float(dtype) ? floats[i] : static_cast<double>(ints[i]); }
};

// Values of `outputs`. Nodes that have a value are read from their device; the others are evaluated recursively (iteratively: no stack limit).
std::vector<HostArray> evaluate_reference(std::span<const NodePtr> outputs);

// While one lives, this thread's evaluations round every value of every node to its dtype, as a device does that stores each of them: what the tests of
// f16 and bf16 ask, because fused kernels keep more digits than a user can count on.
class RoundingScope {
 public:
  RoundingScope();
  ~RoundingScope();
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

// Element bytes as stored <-> HostArray.
HostArray host_array_from_bytes(const void* data, const Shape& shape, DType dtype);
std::vector<uint8_t> host_array_to_bytes(const HostArray& array);

// The elements of a view of `width` bytes each, out of `source`, whose first byte is element `base`; row-major into `target`.
void gather(const uint8_t* source, const View& view, int64_t base, size_t width, uint8_t* target);

// Reads a node's value from its device, gathering through its view: as stored, or as numbers.
std::vector<uint8_t> read_bytes(const Node& node);
HostArray read_value(const Node& node);

}  // namespace heddle
