#include "heddle/core/functions/nn/softmax.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

Tensor softmax_row(const OpDef& op, const Tensor& x, int axis) {
  const Tensor in = build::as_float(x, op.autocast);
  if (x.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis; reshape it to (1)", op.name));
  const int at = normalize_axis(axis, x.rank(), op.name.data());
  return build::record(op, {&in}, axis_attrs(at), in.shape(), in.dtype());
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  return softmax_row(ops::softmax_op, x, axis);
}
Tensor log_softmax(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  return softmax_row(ops::log_softmax_op, x, axis);
}

}  // namespace heddle
