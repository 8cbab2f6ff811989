// What the builders of several families share. Internal to onnx/ops. Thread safety: as the functions that they call.
#pragma once

#include <utility>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/onnx/op.h"

namespace heddle::onnx::build {

// Values of 64 unsigned bits in the order of signed ones.
inline Tensor in_order(const Tensor& x, Type type) {
  return type == Type::u64 ? heddle::bitwise_xor(x, -9223372036854775808.0) : x;
}
// `saturate`: beyond a float of 8 bits lies its largest (narrow_types.h).
Tensor to_type(const Tensor& x, Type from, Type to, bool saturate = true);
// Quotients of integers toward zero.
Tensor divided(const Tensor& a, const Tensor& b, Type type);

inline std::vector<int> as_ints(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }
// A number in a tensor of a type, exactly.
Tensor number(const Call& c, Type type, int64_t value);

// (before, after) of each spatial dimension, from ONNX's pads and auto_pad, for windows of these sizes.
struct Window {
  std::vector<int64_t> kernel, stride, dilation;
  std::vector<int64_t> before, after;
};
Window window_of(const Call& c, const std::vector<int64_t>& sizes, const std::vector<int64_t>& kernel);
// The convolution that a node's attributes describe; `fill` stands in the padding.
Tensor convolution(const Call& c, Tensor x, const Tensor& weight, const Tensor& bias, double fill);

}  // namespace heddle::onnx::build
