// Softmax, its logarithm and cross entropy from elementwise rows and reductions.
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/decompose.h"

namespace heddle {
namespace {

int axis_of(const Node& node) { return heddle::axis_of(node.attrs); }

// The largest along the axis, as a constant of the gradient: shifting by it changes no result, so it has no derivative.
// An axis without elements has no largest; nothing is left to shift then.
Tensor shift_of(const Tensor& x, int axis) {
  if (x.shape()[axis] == 0) return zeros(x.shape().with(axis, 1), x.dtype(), &x.device());
  return stop_gradient(max(x, {axis}, true));
}

}  // namespace

Tensor decompose_softmax(const Node& node) {
  const int axis = axis_of(node);
  const Tensor x = build::widen(Tensor(node.inputs[0]));
  const Tensor e = exp(x - shift_of(x, axis));
  return cast(e * reciprocal(sum(e, {axis}, true)), node.dtype);  // one division a row
}

Tensor decompose_log_softmax(const Node& node) {
  const int axis = axis_of(node);
  const Tensor x = build::widen(Tensor(node.inputs[0]));
  const Tensor shifted = x - shift_of(x, axis);
  return cast(shifted - log(sum(exp(shifted), {axis}, true)), node.dtype);
}

// A row whose largest is infinite is not shifted: -inf everywhere gives -inf and +inf gives +inf, where inf - inf were
// NaN.
Tensor decompose_logsumexp(const Node& node) {
  const int axis = axis_of(node);
  const Tensor x = build::widen(Tensor(node.inputs[0]));
  const Tensor largest = shift_of(x, axis);
  const Tensor shift = where(isinf(largest), 0.0, largest);
  return cast(reshape(log(sum(exp(x - shift), {axis}, true)) + shift, node.shape), node.dtype);
}

// The target's logit is shifted after it was picked: the shifted logits are then needed element by element alone, and
// all is one kernel.
Tensor decompose_cross_entropy(const Node& node) {
  const Tensor x = build::widen(Tensor(node.inputs[0]));
  const Tensor targets(node.inputs[1]);
  const Tensor shift = shift_of(x, 1);
  const Tensor total = log(sum(exp(x - shift), {1}));
  const Tensor picked = reshape(gather(x, 1, unsqueeze(targets, 1)), targets.shape());
  return cast(total - (picked - reshape(shift, targets.shape())), node.dtype);
}

}  // namespace heddle
