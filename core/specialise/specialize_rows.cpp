// Long sorts, long scans and scatters as graphs of bodies: sorted blocks and merges; chunk totals, their scan, and the
// chunks; the order of the indices, and sums of segments.
#include <algorithm>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/specialise/rewrites.h"
#include "heddle/core/tiles/rows_tiles.h"

namespace heddle {
namespace {

// Indices in order of the rows (last dimension) of x, the first `kept` of each.
int order_rows(Graph& out, int x, bool descending, int64_t kept, const Caps& caps) {
  const Shape shape = out.nodes[x].shape;
  const int last = shape.rank() - 1;
  const int64_t length = shape[last], block = sort_block(caps);
  // Of another length there would be merges: then there is always one.
  bool merges = dimension_varies(out.nodes[x], last);
  if (length <= block && !merges)
    return out.add({&ops::argsort_op, sort_attrs(descending, kept), {x}, shape.with(last, kept), DType::i32});
  int64_t run = std::min(block, kept), runs = ceil_div(length, block);
  int64_t count = (runs - 1) * run + std::min(length - (runs - 1) * block, run);
  int at = out.add({&ops::argsort_op, sort_attrs(descending, run, block), {x}, shape.with(last, count), DType::i32});
  for (; runs > 1 || merges; merges = false) {
    const int64_t merged = std::min(2 * run, kept), pairs = ceil_div(runs, 2);
    const int64_t from = count;
    count = (pairs - 1) * merged + std::min(from - (pairs - 1) * 2 * run, merged);
    at = out.add({&sort_merge_op, merge_attrs(descending, run, merged), {x, at}, shape.with(last, count), DType::i32});
    run = merged;
    runs = pairs;
  }
  return at;
}

bool is_scan(const OpDef& op) {
  return &op == &ops::cumsum_op || &op == &ops::cumprod_op || &op == &ops::cummax_op || &op == &ops::logcumsumexp_op;
}

// What a scan of nothing gives.
double identity_of(const OpDef& op, DType dtype) {
  if (&op == &ops::cumsum_op) return 0;
  if (&op == &ops::cumprod_op) return 1;
  return is_float(dtype) ? -std::numeric_limits<double>::infinity() : dtype == DType::i64 ? -0x1p63 : -0x1p31;
}

// log(sum(e^x)) over an axis of x; the shift by the maximum stays finite.
int log_sum(Graph& out, int x, int axis) {
  const Shape shape = out.nodes[x].shape;
  const DType dtype = out.nodes[x].dtype;
  const auto unary = [&](const OpDef& op, int of) { return out.add({&op, {}, {of}, out.nodes[of].shape, dtype}); };
  const int largest = rewrite::reduce(out, ops::max_op, x, {axis});
  const Shape rows = out.nodes[largest].shape;
  const int above = rewrite::binary(out, ops::maximum_op, largest, rewrite::full(out, rows, dtype, -3e38));
  const int shift = rewrite::binary(out, ops::minimum_op, above, rewrite::full(out, rows, dtype, 3e38));
  const int wide = rewrite::expand(out, rewrite::reshape(out, shift, shape.with(axis, 1)), shape);
  const int total =
      rewrite::reduce(out, ops::sum_op, unary(ops::exp_op, rewrite::binary(out, ops::sub_op, x, wide)), {axis});
  return rewrite::binary(out, ops::add_op, shift, unary(ops::log_op, total));
}

int total_of(Graph& out, const OpDef& op, int x, int axis) {
  if (&op == &ops::logcumsumexp_op) return log_sum(out, x, axis);
  return rewrite::reduce(out,
                         &op == &ops::cumsum_op    ? ops::sum_op
                         : &op == &ops::cumprod_op ? ops::prod_op
                                                   : ops::max_op,
                         x, {axis});
}

int padded(Graph& out, int x, int axis, int64_t size, double value) {
  const Shape shape = out.nodes[x].shape;
  if (shape[axis] == size) return x;
  const Attrs attrs{std::vector<int64_t>(static_cast<size_t>(shape.rank()), 0), value};
  return out.add({&ops::pad_op, attrs, {x}, shape.with(axis, size), out.nodes[x].dtype});
}

// x: (outer, length, inner).
int scan(Graph& out, const OpDef& op, int x, bool exclusive, bool reverse, const Caps& caps) {
  const Shape shape = out.nodes[x].shape;
  const DType dtype = out.nodes[x].dtype;
  const int64_t outer = shape[0], length = shape[1], inner = shape[2], chunk = scan_chunk(caps, outer, length, inner);
  ScanAttrs attrs;
  attrs.axis = 1;
  attrs.exclusive = exclusive;
  attrs.reverse = reverse;
  attrs.chunk = std::min(chunk, length);
  if (chunk >= length) return out.add({&op, attrs.packed(), {x}, shape, dtype});
  const int64_t chunks = ceil_div(length, chunk);
  int wide = rewrite::cast(out, x, arith(dtype));
  if (reverse) wide = out.add({&ops::flip_op, axis_attrs(1), {wide}, shape, out.nodes[wide].dtype});
  wide = rewrite::reshape(out, padded(out, wide, 1, chunks * chunk, identity_of(op, dtype)),
                          Shape{outer, chunks, chunk, inner});
  const int totals = total_of(out, op, wide, 2);
  const int carry = scan(out, op, totals, true, false, caps);
  return out.add({&op, attrs.packed(), {x, carry}, shape, dtype});
}

}  // namespace

int long_sort(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op != &ops::argsort_op || node.shape.numel() == 0) return -1;
  const SortAttrs sort(node.attrs);
  if (sort.block > 0) return -1;
  const Shape& shape = out.nodes[node.inputs[0]].shape;
  if (shape[shape.rank() - 1] <= sort_block(caps) && !dimension_varies(out.nodes[node.inputs[0]], shape.rank() - 1))
    return -1;
  return order_rows(out, node.inputs[0], sort.descending, sort.kept, caps);
}

int long_scan(Graph& out, const IrNode& node, const Caps& caps) {
  if (!is_scan(*node.op) || node.shape.numel() == 0) return -1;
  const ScanAttrs attrs(node.attrs);
  if (attrs.chunk != 0) return -1;
  const int axis = attrs.axis;
  Shape flat{1, node.shape[axis], 1};
  for (int d = 0; d < node.shape.rank(); ++d) {
    if (d != axis) flat = flat.with(d < axis ? 0 : 2, flat[d < axis ? 0 : 2] * node.shape[d]);
  }
  const int x = rewrite::reshape(out, node.inputs[0], flat);
  return rewrite::reshape(out, scan(out, *node.op, x, attrs.exclusive, attrs.reverse, caps), node.shape);
}

// Few indices of few rows are compared one by one (shaders/scatter_add.hk); else they are sorted. Rows that take more
// than a binding covers are cut, which the sorted form can be.
int sorted_scatter(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op != &ops::scatter_rows_op || node.shape.numel() == 0) return -1;
  const int base = node.inputs[0], index = node.inputs[1];
  const int64_t count = out.nodes[index].shape[0];
  const bool zero = out.nodes[base].op == &ops::full_op && out.nodes[base].attrs.real == 0;
  const bool varies = dimension_varies(out.nodes[index], 0) || dimension_varies(node, 0);
  const bool large = static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype) > caps.max_binding_bytes;
  if (count == 0 || (!varies && !large && count * node.shape[0] <= 4096)) return -1;
  // All picks may name one row, which one work item sums: more than it may loop are added piece by piece, in their
  // order.
  const int64_t most =
      caps.max_loop_iterations > 1u << 30 ? count : static_cast<int64_t>(caps.max_loop_iterations) - 64;
  int sums = zero ? -1 : base;
  for (int64_t start = 0; start < count; start += most) {
    const int64_t length = std::min(most, count - start);
    const bool whole = length == count;
    const int part = whole ? index : rewrite::slice(out, index, 0, start, length);
    const int updates = whole ? node.inputs[2] : rewrite::slice(out, node.inputs[2], 0, start, length);
    const int order = order_rows(out, part, false, length, caps);
    IrNode piece{&segment_add_op, {}, {part, order, updates}, node.shape, node.dtype};
    if (sums >= 0) piece.inputs.insert(piece.inputs.begin(), sums);
    sums = out.add(std::move(piece));
  }
  return sums;
}

}  // namespace heddle
