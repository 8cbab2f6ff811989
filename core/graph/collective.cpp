#include "heddle/core/graph/collective.h"

#include <fmt/format.h>

#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::collective {
namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Tensor record(const OpDef& op, const Tensor& x, AxisMask axes, const Shape& shape, Pairs pairs = {}) {
  MeshScope::required(op.name);
  return Tensor(make_node(op, {x.node()}, CollectiveAttrs(axes, std::move(pairs)).packed(), shape, x.dtype()));
}

void check_sum(const OpDef& op, const Tensor& x) {
  if (is_float(x.dtype()) || x.dtype() == DType::i32 || x.dtype() == DType::i64) return;
  throw DTypeError(fmt::format("[{}] {} {} cannot be reduced over ranks; f32, f16, bf16, f64, i32 and i64 can: cast it",
                               op.name, x.shape().str(), name_of(x.dtype())));
}

Tensor reduced(const OpDef& op, const Tensor& x, AxisMask axes) {
  check_sum(op, x);
  return record(op, x, axes, x.shape());
}

void check_parts(const OpDef& op, const Tensor& x, AxisMask axes) {
  const MeshScope& scope = MeshScope::required(op.name);
  if (x.rank() > 0 && x.dim(0) == scope.size(axes)) return;
  throw ShapeError(fmt::format("[{}] {} has no part for each of the {} ranks along {}", op.name, x.shape().str(),
                               scope.size(axes), scope.names(axes)));
}

void check_pairs(const Pairs& pairs, AxisMask axes) {
  const MeshScope& scope = MeshScope::required("ppermute");
  const int64_t size = scope.size(axes);
  std::set<int64_t> senders, receivers;
  for (const auto& [from, to] : pairs) {
    if (from < 0 || from >= size || to < 0 || to >= size)
      throw ValueError(
          fmt::format("[ppermute] {} to {}: along {} there are places 0 to {}", from, to, scope.names(axes), size - 1));
    if (!senders.insert(from).second || !receivers.insert(to).second)
      throw ValueError(fmt::format("[ppermute] {} to {}: a place sends once and receives once", from, to));
  }
}

}  // namespace

Tensor psum(const Tensor& x, AxisMask axes) { return reduced(ops::psum_op, x, axes); }
Tensor pmax(const Tensor& x, AxisMask axes) { return reduced(ops::pmax_op, x, axes); }
Tensor pmin(const Tensor& x, AxisMask axes) { return reduced(ops::pmin_op, x, axes); }

Tensor all_gather(const Tensor& x, AxisMask axes) {
  const int64_t size = MeshScope::required("all_gather").size(axes);
  return record(ops::all_gather_op, x, axes, x.shape().inserted(0, size));
}

Tensor reduce_scatter(const Tensor& x, AxisMask axes) {
  check_sum(ops::reduce_scatter_op, x);
  check_parts(ops::reduce_scatter_op, x, axes);
  return record(ops::reduce_scatter_op, x, axes, x.shape().without(0));
}

Tensor all_to_all(const Tensor& x, AxisMask axes) {
  check_parts(ops::all_to_all_op, x, axes);
  return record(ops::all_to_all_op, x, axes, x.shape());
}

Tensor ppermute(const Tensor& x, AxisMask axes, const Pairs& pairs) {
  check_pairs(pairs, axes);
  return record(ops::ppermute_op, x, axes, x.shape(), pairs);
}

Tensor pvary(const Tensor& x, AxisMask axes) {
  const AxisMask more = axes & ~x.node()->varying;
  return more == 0 ? x : record(ops::pvary_op, x, more, x.shape());
}

}  // namespace heddle::collective
