#include "heddle/core/functions/math/cast.h"

#include "heddle/core/graph/node.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

Tensor cast(const Tensor& x, DType dtype, Caller caller) {
  const CallerScope scope(caller);
  if (x.dtype() == dtype) return x;
  return Tensor(make_node(ops::cast_op, {x.node()}, {}, x.shape(), dtype));
}

}  // namespace heddle
