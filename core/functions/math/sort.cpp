// Order and running sums.
#include "heddle/core/functions/math/sort.h"

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::record;

int checked_axis(const Tensor& x, int axis, const char* op) {
  if (x.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis; reshape it to (1)", op));
  return normalize_axis(axis, x.rank(), op);
}

Tensor scan(const OpDef& op, const Tensor& x, int axis, bool exclusive, bool reverse) {
  const int at = checked_axis(x, axis, op.name.data());
  const Tensor in = cast(x, is_float(x.dtype()) ? autocast_dtype(op, x.dtype()) : DType::i64);
  ScanAttrs attrs;
  attrs.axis = at;
  attrs.exclusive = exclusive;
  attrs.reverse = reverse;
  return record(op, {&in}, attrs.packed(), in.shape(), in.dtype());
}

// Axis `axis` last, the others in order: and back, as it is an exchange of positions by a cycle.
std::vector<int> axis_last(int rank, int axis) {
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return order;
}

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return back;
}

struct LastAxis {
  Tensor x, indices;  // axis last; indices i32
  std::vector<int> back;
};

LastAxis order_last(const Tensor& x, int axis, bool descending, std::optional<int64_t> k, const char* op) {
  const int at = checked_axis(x, axis, op);
  const int64_t size = x.dim(at);
  if (k && (*k < 0 || *k > size))
    throw ValueError(fmt::format("[{}] k is {}, and axis {} of {} has {} elements", op, *k, at, x.shape().str(), size));
  const std::vector<int> order = axis_last(x.rank(), at);
  const Tensor turned = at == x.rank() - 1 ? x : permute(x, order);
  const Tensor in = x.dtype() == DType::boolean ? cast(turned, DType::i32) : turned;
  const int64_t kept = k.value_or(size);
  const Tensor indices =
      record(ops::argsort_op, {&in}, sort_attrs(descending, kept), in.shape().with(x.rank() - 1, kept), DType::i32);
  return {turned, indices, inverse(order)};
}

Ordered ordered(const LastAxis& last) {
  const int axis = last.x.rank() - 1;
  const Tensor values = last.indices.numel() == 0 ? zeros(last.indices.shape(), last.x.dtype(), &last.x.device())
                                                  : gather(last.x, axis, last.indices);
  return {permute(values, last.back), cast(permute(last.indices, last.back), DType::i64)};
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis, bool exclusive, bool reverse, Caller caller) {
  const CallerScope scope(caller);
  return scan(ops::cumsum_op, x, axis, exclusive, reverse);
}
Tensor cumprod(const Tensor& x, int axis, bool exclusive, bool reverse, Caller caller) {
  const CallerScope scope(caller);
  return scan(ops::cumprod_op, x, axis, exclusive, reverse);
}

Tensor argsort(const Tensor& x, int axis, bool descending, Caller caller) {
  const CallerScope scope(caller);
  const LastAxis last = order_last(x, axis, descending, {}, "argsort");
  return cast(permute(last.indices, last.back), DType::i64);
}

Ordered sort(const Tensor& x, int axis, bool descending, Caller caller) {
  const CallerScope scope(caller);
  return ordered(order_last(x, axis, descending, {}, "sort"));
}
Ordered topk(const Tensor& x, int64_t k, int axis, bool largest, Caller caller) {
  const CallerScope scope(caller);
  return ordered(order_last(x, axis, largest, k, "topk"));
}

}  // namespace heddle
