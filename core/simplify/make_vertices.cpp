#include "heddle/core/simplify/make_vertices.h"

#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::rewrite {

int reshape(Graph& out, int x, const Shape& shape) {
  if (out.nodes[x].shape == shape) return x;
  return out.add({&ops::reshape_op, {}, {x}, shape, out.nodes[x].dtype});
}

int permute(Graph& out, int x, const std::vector<int64_t>& order) {
  Shape shape;
  for (const int64_t axis : order) shape.push_back(out.nodes[x].shape[static_cast<int>(axis)]);
  return out.add({&ops::permute_op, Attrs{order}, {x}, shape, out.nodes[x].dtype});
}

int slice(Graph& out, int x, int axis, int64_t start, int64_t count) {
  const Shape shape = out.nodes[x].shape;
  std::vector<int64_t> starts(static_cast<size_t>(shape.rank()), 0);
  starts[static_cast<size_t>(axis)] = start;
  const std::vector<int64_t> steps(starts.size(), 1);
  return out.add({&ops::slice_op, slice_attrs(starts, steps), {x}, shape.with(axis, count), out.nodes[x].dtype});
}

int cast(Graph& out, int x, DType dtype) {
  if (out.nodes[x].dtype == dtype) return x;
  return out.add({&ops::cast_op, {}, {x}, out.nodes[x].shape, dtype});
}

int full(Graph& out, const Shape& shape, DType dtype, double value) {
  IrNode node{&ops::full_op, {}, {}, shape, dtype};
  node.attrs.real = value;
  return out.add(std::move(node));
}

int binary(Graph& out, const OpDef& op, int x, int y) {
  const bool truth = op.rule == DTypeRule::compare || op.rule == DTypeRule::logical;
  return out.add({&op, {}, {x, y}, out.nodes[x].shape, truth ? DType::boolean : out.nodes[x].dtype});
}

int gather(Graph& out, int x, int axis, int indices) {
  return out.add({&ops::gather_op, axis_attrs(axis), {x, indices}, out.nodes[indices].shape, out.nodes[x].dtype});
}

int expand(Graph& out, int x, const Shape& shape) {
  if (out.nodes[x].shape == shape) return x;
  return out.add({&ops::expand_op, {}, {x}, shape, out.nodes[x].dtype});
}

int reduce(Graph& out, const OpDef& op, int x, const std::vector<int64_t>& axes) {
  const Shape& from = out.nodes[x].shape;
  Shape shape;
  for (int d = 0; d < from.rank(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) shape.push_back(from[d]);
  }
  const bool position = &op == &ops::argmax_op || &op == &ops::argmin_op;
  return out.add({&op, Attrs{axes}, {x}, shape, position ? DType::i64 : out.nodes[x].dtype});
}

}  // namespace heddle::rewrite
