#include "heddle/distributed/collectives.h"

#include <fmt/format.h>

#include <bit>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/collective.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/trace.h"

namespace heddle::distributed {
namespace {

AxisMask mask(const AxisNames& axes, const char* who) { return MeshScope::required(who).mask(axes.list(), who); }

// Axis `from` at the place of axis `to`.
Tensor moved_axis(const Tensor& x, int from, int to) {
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != from) order.push_back(axis);
  }
  order.insert(order.begin() + to, from);
  return from == to ? x : permute(x, order);
}

// `dim` cut into n parts, which are the first axis.
Tensor cut(const Tensor& x, int dim, int64_t n, AxisMask axes, const char* who) {
  const int64_t size = x.dim(dim);
  if (size % n != 0) {
    throw ShapeError(fmt::format("[{}] the {} ranks along {} do not divide axis {} of {}", who, n,
                                 MeshScope::required(who).names(axes), dim, x.shape().str()));
  }
  return moved_axis(reshape(x, x.shape().with(dim, size / n).inserted(dim, n)), dim, 0);
}

// The first axis is parts of `dim` of the rest.
Tensor joined(const Tensor& parts, int dim) {
  const int64_t n = parts.dim(0);
  const Tensor beside = moved_axis(parts, 0, dim);
  const Shape shape = parts.shape().without(0);
  return reshape(beside, shape.with(dim, n * shape[dim]));
}

}  // namespace

Tensor psum(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return collective::psum(x, mask(axes, "psum"));
}

Tensor pmean(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "pmean");
  if (!is_float(x.dtype())) {
    throw DTypeError(
        fmt::format("[pmean] {} {} has no mean over ranks; cast it to f32", x.shape().str(), name_of(x.dtype())));
  }
  return collective::psum(x, along) / static_cast<double>(MeshScope::required("pmean").size(along));
}

Tensor pmax(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return collective::pmax(x, mask(axes, "pmax"));
}

Tensor pmin(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return collective::pmin(x, mask(axes, "pmin"));
}

Tensor all_gather(const Tensor& x, const AxisNames& axes, int dim, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "all_gather");
  const int at = normalize_axis(dim, x.rank(), "all_gather");
  return joined(collective::all_gather(x, along), at);
}

Tensor reduce_scatter(const Tensor& x, const AxisNames& axes, int dim, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "reduce_scatter");
  const int at = normalize_axis(dim, x.rank(), "reduce_scatter");
  const int64_t n = MeshScope::required("reduce_scatter").size(along);
  return collective::reduce_scatter(cut(x, at, n, along, "reduce_scatter"), along);
}

Tensor all_to_all(const Tensor& x, const AxisNames& axes, int split, int join, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "all_to_all");
  const int from = normalize_axis(split, x.rank(), "all_to_all"), to = normalize_axis(join, x.rank(), "all_to_all");
  const int64_t n = MeshScope::required("all_to_all").size(along);
  return joined(collective::all_to_all(cut(x, from, n, along, "all_to_all"), along), to);
}

Tensor ppermute(const Tensor& x, const AxisNames& axes, const std::vector<std::pair<int64_t, int64_t>>& pairs,
                Caller caller) {
  const CallerScope scope(caller);
  return collective::ppermute(x, mask(axes, "ppermute"), pairs);
}

Tensor pvary(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return collective::pvary(x, mask(axes, "pvary"));
}

Tensor axis_index(const AxisNames& axes, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "axis_index");
  HostValue value;
  value.words[0] = static_cast<uint32_t>(MeshScope::required("axis_index").place(along));
  const NodePtr leaf = make_host_leaf(device == nullptr ? default_device() : *device, value, Shape{}, DType::i32);
  leaf->varying = along;
  if (trace::any()) trace::source(leaf, [value] { return value; });
  return Tensor(leaf);
}

int64_t axis_size(const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return MeshScope::required("axis_size").size(mask(axes, "axis_size"));
}

bool varies(const Tensor& x, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  return (x.node()->varying & mask(axes, "varies")) != 0;
}

void set_varying(const Tensor& leaf, const AxisNames& axes, Caller caller) {
  const CallerScope scope(caller);
  const AxisMask along = mask(axes, "set_varying");
  if (!leaf.node()->has_value() || !leaf.node()->inputs.empty()) {
    throw ValueError(
        fmt::format("[set_varying] this {} is the result of '{}' and varies as its operands do; pvary() it",
                    leaf.shape().str(), leaf.node()->op->name));
  }
  leaf.node()->varying |= along;
}

}  // namespace heddle::distributed
