// HostArray: one value on the host, as numbers.
//
// Purpose: what the reference evaluator computes with and what a value read from a device becomes. Invariants:
// row-major; `floats` for floating dtypes, `ints` for integers and bool, the other empty. Thread safety: plain value,
// pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/base/view.h"

namespace heddle {

struct HostArray {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  double at(size_t i) const { return is_float(dtype) ? floats[i] : static_cast<double>(ints[i]); }
};

// Element bytes as stored <-> HostArray.
HostArray host_array_from_bytes(const void* data, const Shape& shape, DType dtype);
std::vector<uint8_t> host_array_to_bytes(const HostArray& array);

// The elements of a view of `width` bytes each, out of `source`, whose first byte is element `base`; row-major into
// `target`.
void gather(const uint8_t* source, const View& view, int64_t base, size_t width, uint8_t* target);

}  // namespace heddle
