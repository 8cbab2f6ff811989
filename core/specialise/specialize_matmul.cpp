// A product with few results and a long inner dimension (a weight gradient, a dot product) leaves processors idle: it
// becomes partial products of pieces of that dimension, a batched product over views of the operands, and their sum in
// a fixed order. What follows joins the sum. And one whose inner dimension is 1 becomes elementwise.
#include <algorithm>
#include <cmath>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/specialise/rewrites.h"
#include "heddle/core/tiles/matmul_tiles.h"

namespace heddle {
namespace {

// `x` with its axis `axis` of parts * length elements cut in two, and the parts moved to `place`.
int pieces(Graph& out, int x, int axis, int place, int64_t parts, int64_t length) {
  const Shape from = out.nodes[x].shape;
  Shape cut;
  for (int d = 0; d < from.rank(); ++d) {
    if (d == axis) cut.push_back(parts);
    cut.push_back(d == axis ? length : from[d]);
  }
  const int split = rewrite::reshape(out, x, cut);
  if (place == axis) return split;
  std::vector<int64_t> order;
  for (int d = 0; d < cut.rank(); ++d) {
    if (d == place) order.push_back(axis);
    if (d != axis) order.push_back(d);
  }
  return rewrite::permute(out, split, order);
}

// The divisor of `size` from `wanted` to twice that, or 0.
int64_t divisor_from(int64_t size, int64_t wanted) {
  for (int64_t d = wanted; d <= 2 * wanted; ++d) {
    if (size % d == 0) return d;
  }
  return 0;
}

class Split {
 public:
  Split(Graph& out, const IrNode& node)
      : out_(out), node_(node), rank_(node.shape.rank()), k_(out.nodes[node.inputs[0]].shape[rank_ - 1]) {}

  MatmulProblem problem() const {
    MatmulProblem p;
    p.M = nominal(node_, rank_ - 2);
    p.N = nominal(node_, rank_ - 1);
    p.K = k_varies() ? nominal_size : k_;
    for (int d = 0; d < rank_ - 2; ++d) p.batch *= dimension_varies(node_, d) ? nominal_batch : node_.shape[d];
    p.a = p.a_value = out_.nodes[node_.inputs[0]].dtype;
    p.b = p.b_value = out_.nodes[node_.inputs[1]].dtype;
    return p;
  }

  int in_parts(int64_t wanted) {
    const int64_t divisor = divisor_from(k_, wanted), parts = divisor ? divisor : wanted, length = k_ / parts,
                  covered = parts * length;
    const int a = pieces(out_, head(node_.inputs[0], rank_ - 1, covered), rank_ - 1, rank_ - 2, parts, length);
    const int b = pieces(out_, head(node_.inputs[1], rank_ - 2, covered), rank_ - 2, rank_ - 2, parts, length);
    const int partial = product(a, b);
    int total = rewrite::reduce(out_, ops::sum_op, partial, {rank_ - 2});
    if (covered < k_) {
      const int rest = product(rewrite::slice(out_, node_.inputs[0], rank_ - 1, covered, k_ - covered),
                               rewrite::slice(out_, node_.inputs[1], rank_ - 2, covered, k_ - covered));
      total = rewrite::binary(out_, ops::add_op, total, rest);
    }
    const int result = rewrite::cast(out_, total, node_.dtype);
    if (result != total) out_.nodes[result].attrs.real2 = node_.attrs.real2;
    return result;
  }

  // The loops of a work item are as long as the real dimension.
  int64_t parts(const Caps& caps) const {
    const int64_t bound = std::max(bound_parts(caps, node_.inputs[0], true), bound_parts(caps, node_.inputs[1], false));
    return std::max({pick_matmul_parts(caps, problem()), least_matmul_parts(caps, k_), bound});
  }

 private:
  // Parts of an operand that a binding covers, where its other dimension is the inner one in memory: rows or columns of
  // it reach from one end to the other (core/lower/sections.h cuts the rest).
  int64_t bound_parts(const Caps& caps, int x, bool left) const {
    const auto at = [&](int id) -> const IrNode& { return out_.nodes[static_cast<size_t>(id)]; };
    while (at(x).op == &ops::reshape_op || at(x).op == &ops::expand_op) x = at(x).inputs[0];
    bool turned = false;
    if (at(x).op == &ops::permute_op) {
      const int last = at(x).shape.rank() - 1;
      turned = last > 0 && order_of(at(x).attrs)[static_cast<size_t>(last)] == last - 1;
    }
    const double bytes = static_cast<double>(at(x).shape.numel()) * static_cast<double>(size_of(at(x).dtype));
    if (turned != left || bytes <= static_cast<double>(caps.max_binding_bytes)) return 1;
    return std::min(k_, static_cast<int64_t>(std::ceil(1.1 * bytes / static_cast<double>(caps.max_binding_bytes))));
  }
  bool k_varies() const {
    return dimension_varies(out_.nodes[node_.inputs[0]], rank_ - 1) &&
           dimension_varies(out_.nodes[node_.inputs[1]], rank_ - 2);
  }

  // Sums of half precision are kept in f32 until they are complete.
  int product(int a, int b) {
    Shape shape = out_.nodes[a].shape;
    shape = shape.with(shape.rank() - 1, out_.nodes[b].shape[shape.rank() - 1]);
    return out_.add({&ops::matmul_op, {}, {a, b}, shape, arith(node_.dtype)});
  }
  int head(int x, int axis, int64_t count) { return count == k_ ? x : rewrite::slice(out_, x, axis, 0, count); }

  Graph& out_;
  const IrNode& node_;
  int rank_;
  int64_t k_;
};

// Without a sum it is elementwise, and written as fast as memory takes it.
int outer_product(Graph& out, const IrNode& node) {
  return rewrite::binary(out, ops::mul_op, rewrite::expand(out, node.inputs[0], node.shape),
                         rewrite::expand(out, node.inputs[1], node.shape));
}

}  // namespace

int split_matmul(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op != &ops::matmul_op) return -1;
  if (out.nodes[node.inputs[0]].shape[node.shape.rank() - 1] == 1) return outer_product(out, node);
  // The kernel has two loops over batches; one of them becomes the parts. Narrow integers wrap at their own width.
  const bool narrow = node.dtype == DType::i8 || node.dtype == DType::u8 || node.dtype == DType::boolean;
  if (node.shape.rank() > 3 || narrow) return -1;
  Split split(out, node);
  const int64_t parts = split.parts(caps);
  return parts > 1 ? split.in_parts(parts) : -1;
}

}  // namespace heddle
