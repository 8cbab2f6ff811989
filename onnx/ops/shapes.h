// Shapes of results, for builders and folds alike. Internal to onnx/ops. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/onnx/op.h"

namespace heddle::onnx::shapes {

// Reshape's: 0 keeps a dimension unless allowzero, -1 is inferred. ShapeError.
Shape reshaped(const NodeView& view, const Shape& from, const std::vector<int64_t>& target);
Shape flattened(const NodeView& view, const Shape& from);
Shape squeezed(const NodeView& view, const Shape& from, const std::optional<std::vector<int64_t>>& axes);
Shape unsqueezed(const NodeView& view, const Shape& from, const std::vector<int64_t>& axes);
std::vector<int> permutation(const NodeView& view, int rank);
// Sizes of a Split's outputs.
std::vector<int64_t> split(const NodeView& view, int64_t length, const std::optional<std::vector<int64_t>>& given);
// Slice's ranges for each axis of the shape: first place, number and step.
struct Range {
  int64_t start = 0, count = 0, step = 1;
};
std::vector<Range> slices(const NodeView& view, const Shape& from, const std::vector<int64_t>& starts,
                          const std::vector<int64_t>& ends, const std::optional<std::vector<int64_t>>& axes,
                          const std::optional<std::vector<int64_t>>& steps);
// The value of a Constant.
HostTensor constant(const NodeView& view);
int64_t range_count(double start, double limit, double step);
// ValueError for a negative size, or more elements than an int64 counts.
Shape checked(const NodeView& view, const std::vector<int64_t>& sizes);

}  // namespace heddle::onnx::shapes
