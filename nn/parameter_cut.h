// ParameterCut: which elements of a parameter each rank has, of a model whose layers lie in parts on several ranks.
//
// Purpose: a model's parts are taken from the whole parameters, and put together again for files that any number of
// ranks reads. Invariants: parts of a parameter are of one size and make it up, in the order of the ranks. Errors:
// ShapeError where the ranks do not divide the axis. Thread safety: pure functions of plain values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

struct ParameterCut {
  int axis = -1;       // that ranks have parts of; -1: each has all
  int64_t blocks = 1;  // equal pieces of the axis, each cut by itself: 3 of queries, keys and values in one projection

  bool whole() const { return axis < 0; }
  bool operator==(const ParameterCut&) const = default;
};

// A rank of `ranks`, and its place among them.
struct CutPlace {
  int64_t ranks = 1, place = 0;
};

// The shape of a part of such a parameter, and that of the parameter of such a part.
Shape shape_of_part(const Shape& whole, const ParameterCut& cut, int64_t ranks);
Shape shape_of_whole(const Shape& part, const ParameterCut& cut, int64_t ranks);

// A tensor of its own with the rank's elements, on `device`; of the whole dtype. Waits for the device of `whole`.
Tensor part_of(const Tensor& whole, const ParameterCut& cut, const CutPlace& at, DeviceContext& device);

// The elements of a part, dense, become those of the whole, dense, of that shape and size of an element.
void put_part(std::span<const uint8_t> part, std::span<uint8_t> whole, const Shape& shape, size_t element_bytes,
              const ParameterCut& cut, const CutPlace& at);

}  // namespace heddle::nn
