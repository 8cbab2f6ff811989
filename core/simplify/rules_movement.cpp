// Rules for movement: views of views are one view, and slices see through pads and concats.
#include <algorithm>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle {
namespace {

std::optional<int> fold_view(Simplifier& graph, IrNode& node) {
  const int x = node.inputs[0];
  return is_view_op(*node.op) && graph.is_full(x)
             ? std::optional(graph.make_full(node.shape, node.dtype, graph.at(x).attrs.real))
             : std::nullopt;
}

// A slice that lies within one part of a concat is a slice of that part.
std::optional<int> slice_of_part(Simplifier& graph, IrNode& node) {
  const IrNode& joined = graph.at(node.inputs[0]);
  const int axis = axis_of(joined.attrs);
  const auto at = static_cast<size_t>(axis);
  if (node.shape.numel() == 0) return std::nullopt;
  const SliceChange slice(node.attrs);
  const int64_t first = slice.start[at], last = first + (node.shape[axis] - 1) * slice.step[at];
  int64_t start = 0;
  for (int part : joined.inputs) {
    const int64_t end = start + graph.at(part).shape[axis];
    if (std::min(first, last) >= start && std::max(first, last) < end) {
      slice.start[at] -= start;
      node.inputs[0] = part;
      return graph.make(node);
    }
    start = end;
  }
  return std::nullopt;
}

// Neighbouring slices of one value, joined again, are one slice of it: a view.
std::optional<int> concat_of_slices(Simplifier& graph, const IrNode& node) {
  const int axis = axis_of(node.attrs);
  const auto at = static_cast<size_t>(axis);
  const IrNode& first = graph.at(node.inputs[0]);
  if (first.op != &ops::slice_op) return std::nullopt;
  int64_t next = SliceAttrs(first.attrs).start[at];
  for (int part : node.inputs) {
    const IrNode& slice = graph.at(part);
    if (slice.op != &ops::slice_op || slice.inputs[0] != first.inputs[0]) return std::nullopt;
    Attrs moved = first.attrs;
    SliceChange(moved).start[at] = next;
    if (slice.attrs != moved) return std::nullopt;
    next += slice.shape[axis] * SliceAttrs(slice.attrs).step[at];
  }
  return graph.make({&ops::slice_op, first.attrs, {first.inputs[0]}, node.shape, node.dtype});
}

// Whether the sizes of a vertex and its input can only be equal by chance: of other sizes it does something
// (core/ir/dynamic_sizes.h).
bool resizes(const Simplifier& graph, const IrNode& node) {
  return ((node.varies ^ graph.at(node.inputs[0]).varies) & varies::dimensions) != 0;
}

bool is_whole_slice(const IrNode& node) {
  const SliceAttrs slice(node.attrs);
  for (int d = 0; d < node.shape.rank(); ++d) {
    const auto at = static_cast<size_t>(d);
    if (slice.start[at] != 0 || (slice.step[at] != 1 && node.shape[d] > 1)) return false;
  }
  return true;
}

// A slice that reads only what was padded, or only border: gradients of slices are pads, of which the next rule wants a
// slice again.
std::optional<int> slice_of_pad(Simplifier& graph, IrNode& node) {
  const IrNode pad = graph.at(node.inputs[0]);
  const IrNode& inner = graph.at(pad.inputs[0]);
  const int rank = node.shape.rank();
  if (node.shape.numel() == 0) return std::nullopt;  // it has no first element that could lie inside
  const SliceChange slice(node.attrs);
  const std::vector<int64_t>& border = border_of(pad.attrs);
  bool inside = true;
  for (int d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    const int64_t first = slice.start[at] - border[at], last = first + slice.step[at] * (node.shape[d] - 1);
    const int64_t low = std::min(first, last), high = std::max(first, last);
    if (high < 0 || low >= inner.shape[d]) return graph.make_full(node.shape, node.dtype, pad.attrs.real);
    inside = inside && low >= 0 && high < inner.shape[d];
  }
  if (!inside) return std::nullopt;
  for (size_t d = 0; d < border.size(); ++d) slice.start[d] -= border[d];
  node.inputs[0] = pad.inputs[0];
  return graph.make(node);
}

std::optional<int> rewrite_permute(Simplifier& graph, IrNode& node) {
  const IrNode& x = graph.at(node.inputs[0]);
  if (x.op == &ops::permute_op) {
    for (int64_t& axis : order_of(node.attrs)) axis = order_of(x.attrs)[static_cast<size_t>(axis)];
    node.inputs[0] = x.inputs[0];
    return graph.make(node);
  }
  const std::vector<int64_t>& order = order_of(node.attrs);
  bool identity = true;
  for (size_t d = 0; d < order.size(); ++d) identity = identity && order[d] == static_cast<int64_t>(d);
  return identity ? std::optional(node.inputs[0]) : std::nullopt;
}

std::optional<int> compose(Simplifier& graph, IrNode& node) {
  const int x = node.inputs[0];
  if (node.op == &ops::reshape_op || node.op == &ops::expand_op) {
    if (graph.at(x).shape == node.shape) return x;
    if (graph.at(x).op == node.op) {  // reshape of reshape, expand of expand
      node.inputs[0] = graph.at(x).inputs[0];
      return graph.make(node);
    }
    return std::nullopt;
  }
  if (node.op == &ops::permute_op) return rewrite_permute(graph, node);
  if (node.op == &ops::slice_op && !resizes(graph, node) && graph.at(x).shape == node.shape && is_whole_slice(node))
    return x;
  if (node.op == &ops::slice_op && graph.at(x).op == &ops::pad_op) return slice_of_pad(graph, node);
  if (node.op == &ops::slice_op && graph.at(x).op == &ops::concat_op) return slice_of_part(graph, node);
  if (node.op == &ops::pad_op && graph.at(x).shape == node.shape && !resizes(graph, node)) return x;
  if (node.op == &ops::concat_op && node.inputs.size() == 1) return x;
  if (node.op == &ops::concat_op) return concat_of_slices(graph, node);
  return std::nullopt;
}

}  // namespace

std::span<const Rule> movement_rules() {
  static constexpr Rule rules[] = {
      {Pass::fold, fold_view}, {Pass::movement, compose}, {Pass::products, transpose_product}};
  return rules;
}

}  // namespace heddle
