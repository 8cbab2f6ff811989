// Long reductions in stages: partial results of pieces of the reduced axis, then a reduction of those. More work items
// than rows, sums that are pairwise from piece to piece, and no work item that loops past what a driver allows. The
// order of every sum is fixed by the shapes.
#include <algorithm>
#include <cmath>

#include "heddle/core/base/integers.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/specialise/rewrites.h"

namespace heddle {
namespace {

struct Reduction {
  const OpDef& op;
  int x;
  std::vector<int64_t> axes;
  int64_t rows = 1, length = 1;  // results, and elements of each
  bool columns = false;          // the last dimension is kept: lanes run across results
  bool varies = false;           // the length does
  int64_t nominal_rows = 0;      // where the number of results varies
};

Reduction describe(const Graph& out, const OpDef& op, int x, const std::vector<int64_t>& axes) {
  Reduction r{op, x, axes};
  const Shape& shape = out.nodes[x].shape;
  int last = shape.rank() - 1;
  while (last > 0 && shape[last] == 1) --last;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    (reduced ? r.length : r.rows) *= shape[d];
    r.varies = r.varies || (reduced && dimension_varies(out.nodes[x], d));
    if (!reduced && dimension_varies(out.nodes[x], d)) r.nominal_rows = nominal_size;
    if (d == last) r.columns = !reduced;
  }
  return r;
}

struct Workers {
  explicit Workers(const Caps& caps)
      : loops(caps.machine() == Machine::cpu_loops),
        lanes(loops                                  ? 1
              : caps.machine() == Machine::cpu_lanes ? 32
                                                     : 256),
        units(std::max<int64_t>(1, caps.compute_units)),
        iterations(caps.max_loop_iterations > 1u << 30 ? int64_t{1} << 30
                                                       : static_cast<int64_t>(caps.max_loop_iterations)),
        binding_bytes(static_cast<double>(caps.max_binding_bytes)) {}
  bool loops;     // a group is a loop (lower.h)
  int64_t lanes;  // that share a row
  int64_t units;
  int64_t iterations;    // a work item may make
  double binding_bytes;  // of what a launch reads
};

// Pieces of each row that are enough for a launch to read a part of them (core/lower/sections.h).
int64_t bound_pieces(const Reduction& r, DType dtype, const Workers& m) {
  const double row = static_cast<double>(r.length) * static_cast<double>(size_of(dtype)),
               least = r.columns ? row * static_cast<double>(r.rows) : row;
  return least <= m.binding_bytes ? 1 : static_cast<int64_t>(std::ceil(1.1 * least / m.binding_bytes));
}

// Into how many pieces each row should be cut; 1: as it is.
int64_t pieces_of(const Reduction& r, DType dtype, const Workers& m) {
  constexpr int64_t longest_chain = 1024;  // additions one after the other; along a row, lanes make it 256 at most
  const bool wide = !m.loops && (dtype == DType::i64 || dtype == DType::f64);
  const int64_t rows = r.nominal_rows > 0 ? r.nominal_rows : r.rows;
  const int64_t groups = r.columns ? ceil_div(rows, m.loops ? 1024 : m.lanes) : rows;
  const int64_t least = r.columns ? 64 : m.loops ? 8192 : 64 * m.lanes;
  int64_t pieces = 1;
  // Lengths that vary stay one kernel while a chain of that many additions is exact enough.
  constexpr int64_t longest_varying = 4096;
  if (r.length >= 4 * least && (!r.varies || r.length > longest_varying)) {
    if (groups < 4 * m.units)
      pieces = std::max(ceil_div(8 * m.units, groups), r.columns ? 1 : r.length / (256 * (m.loops ? 32 : m.lanes)));
    if (r.columns) pieces = std::max(pieces, r.length / longest_chain);
    pieces = std::min(pieces, r.length / least);
  }
  // A kernel may walk its rows several times; an eighth of what the driver allows leaves room for that.
  const int64_t shared = r.columns || wide || r.varies || rows >= 8 * r.length ? 1 : m.lanes;
  return std::max({pieces, bound_pieces(r, dtype, m), m.loops ? 1 : ceil_div(r.length, shared * (m.iterations / 8))});
}

// The divisor of `size` next to `wanted` within a factor of two and not below `least`, or 0.
int64_t divisor_near(int64_t size, int64_t wanted, int64_t least) {
  for (int64_t step = 0; step <= wanted; ++step) {
    if (size % (wanted + step) == 0) return wanted + step;
    if (2 * step < wanted && wanted - step >= least && size % (wanted - step) == 0) return wanted - step;
  }
  return 0;
}

// x with axis `axis` of size pieces * length * fold as three: (pieces, length, fold).
int cut(Graph& out, int x, int axis, int64_t pieces, int64_t length, int64_t fold) {
  const Shape from = out.nodes[x].shape;
  Shape shape;
  for (int d = 0; d < from.rank(); ++d) {
    if (d != axis) {
      shape.push_back(from[d]);
      continue;
    }
    shape.push_back(pieces);
    shape.push_back(length);
    if (fold > 1) shape.push_back(fold);
  }
  return rewrite::reshape(out, x, shape);
}

const OpDef& combine_op(const OpDef& op) {
  if (&op == &ops::sum_op) return ops::add_op;
  if (&op == &ops::prod_op) return ops::mul_op;
  return &op == &ops::max_op ? ops::maximum_op : ops::minimum_op;
}

class Splitter {
 public:
  Splitter(Graph& out, const Caps& caps) : out_(out), workers_(caps) {}

  // The reduction, in as many stages as it takes.
  int reduce(const OpDef& op, int x, const std::vector<int64_t>& axes) {
    const Reduction r = describe(out_, op, x, axes);
    const int done = split(r);
    return done >= 0 ? done : rewrite::reduce(out_, op, x, axes);
  }

  int split(const Reduction& r) {
    const int64_t pieces = pieces_of(r, out_.nodes[r.x].dtype, workers_);
    const Shape& shape = out_.nodes[r.x].shape;
    if (pieces < 2 || shape.rank() + 2 > Shape::max_rank) return -1;
    const int axis = static_cast<int>(r.axes[0]);
    const int64_t size = shape[axis];
    if (r.axes.size() > 1 && size < 2 * pieces) return outer_last(r, axis);
    return pieces > size ? -1 : in_pieces(r, axis, pieces);
  }

  int split_position(const OpDef& op, int x, int axis) {
    const Reduction r = describe(out_, op, x, {axis});
    const int64_t size = out_.nodes[x].shape[axis], wanted = pieces_of(r, out_.nodes[x].dtype, workers_);
    if (wanted < 2 || wanted > size || out_.nodes[x].shape.rank() + 1 > Shape::max_rank) return -1;
    const int64_t divisor = divisor_near(size, wanted, least_pieces(r)), pieces = divisor ? divisor : wanted,
                  length = size / pieces;
    const int head = best_of_pieces(op, head_of(x, axis, pieces * length), axis, pieces, length);
    if (pieces * length == size) return head;
    return better_of(op, x, axis, head, pieces * length);
  }

 private:
  // All but the first reduced axis, then that one.
  int outer_last(const Reduction& r, int axis) {
    const int inner = reduce(r.op, r.x, {r.axes.begin() + 1, r.axes.end()});
    return reduce(r.op, inner, {axis});
  }

  // The first reduced axis in `pieces` pieces; what is left over is reduced apart.
  int in_pieces(const Reduction& r, int axis, int64_t wanted) {
    const int64_t size = out_.nodes[r.x].shape[axis];
    const int64_t fold = fold_of(r, size, wanted);
    const int64_t divisor = size % fold == 0 ? divisor_near(size / fold, wanted, least_pieces(r)) : 0;
    const int64_t pieces = divisor ? divisor : wanted, length = size / fold / pieces, covered = pieces * length * fold;
    const int parts = cut(out_, head_of(r.x, axis, covered), axis, pieces, length, fold);
    std::vector<int64_t> first{axis + 1}, second{axis};
    for (size_t i = 1; i < r.axes.size(); ++i) first.push_back(r.axes[i] + (fold > 1 ? 2 : 1));
    if (fold > 1) second.push_back(axis + 1);
    const int head = reduce(r.op, rewrite::reduce(out_, r.op, parts, first), second);
    if (covered == size) return head;
    const int tail = reduce(r.op, rewrite::slice(out_, r.x, axis, covered, size - covered), r.axes);
    return rewrite::binary(out_, combine_op(r.op), head, tail);
  }

  int head_of(int x, int axis, int64_t count) {
    return out_.nodes[x].shape[axis] == count ? x : rewrite::slice(out_, x, axis, 0, count);
  }

  int64_t least_pieces(const Reduction& r) const { return bound_pieces(r, out_.nodes[r.x].dtype, workers_); }

  // Narrow columns: neighbouring rows side by side make lanes for whole vectors and long stretches of memory.
  int64_t fold_of(const Reduction& r, int64_t size, int64_t pieces) const {
    if (!r.columns || !workers_.loops || r.axes.size() != 1 || out_.nodes[r.x].shape.rank() != 2) return 1;
    int64_t fold = 1;
    while (2 * fold * r.rows <= 1024 && size / (2 * fold) >= 16 * pieces) fold *= 2;
    return fold;
  }

  // argmax: the best of each piece and where it stood, then the best piece.
  int best_of_pieces(const OpDef& op, int x, int axis, int64_t pieces, int64_t length) {
    const int parts = cut(out_, x, axis, pieces, length, 1);
    const int best = rewrite::reduce(out_, extremum(op), parts, {axis + 1});
    const int at = rewrite::reduce(out_, op, parts, {axis + 1});
    const int piece = rewrite::reduce(out_, op, best, {axis});
    const Shape shape = out_.nodes[piece].shape;
    const int where = rewrite::reshape(out_, piece, out_.nodes[at].shape.with(axis, 1));
    const int within = rewrite::reshape(out_, rewrite::gather(out_, at, axis, where), shape);
    const int start =
        rewrite::binary(out_, ops::mul_op, piece, rewrite::full(out_, shape, DType::i64, static_cast<double>(length)));
    return rewrite::binary(out_, ops::add_op, start, within);
  }

  // `head`, a position in the first `covered` elements, or one behind them that is better.
  int better_of(const OpDef& op, int x, int axis, int head, int64_t covered) {
    const Shape shape = out_.nodes[head].shape;
    const int rest = rewrite::slice(out_, x, axis, covered, out_.nodes[x].shape[axis] - covered);
    const int low = rewrite::reshape(
        out_, rewrite::gather(out_, x, axis, rewrite::reshape(out_, head, out_.nodes[x].shape.with(axis, 1))), shape);
    const int high = rewrite::reduce(out_, extremum(op), rest, {axis});
    const int at = rewrite::binary(out_, ops::add_op, rewrite::reduce(out_, op, rest, {axis}),
                                   rewrite::full(out_, shape, DType::i64, static_cast<double>(covered)));
    int better = rewrite::binary(out_, &op == &ops::argmax_op ? ops::gt_op : ops::lt_op, high, low);
    if (is_float(out_.nodes[x].dtype)) {
      const auto isnan = [&](int id) { return out_.add({&ops::isnan_op, {}, {id}, shape, DType::boolean}); };
      const int number = out_.add({&ops::logical_not_op, {}, {isnan(low)}, shape, DType::boolean});
      better = rewrite::binary(out_, ops::logical_or_op, better,
                               rewrite::binary(out_, ops::logical_and_op, isnan(high), number));
    }
    return out_.add({&ops::where_op, {}, {better, at, head}, shape, DType::i64});
  }

  static const OpDef& extremum(const OpDef& op) { return &op == &ops::argmax_op ? ops::max_op : ops::min_op; }

  Graph& out_;
  Workers workers_;
};

}  // namespace

int split_reduction(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op->kind != OpKind::reduce || axes_of(node.attrs).empty() || node.shape.numel() == 0) return -1;
  const int x = node.inputs[0];
  if (out.nodes[x].shape.numel() == 0) return -1;
  Splitter splitter(out, caps);
  if (node.op == &ops::argmax_op || node.op == &ops::argmin_op)
    return splitter.split_position(*node.op, x, axis_of(node.attrs));
  return splitter.split(describe(out, *node.op, x, axes_of(node.attrs)));
}

}  // namespace heddle
