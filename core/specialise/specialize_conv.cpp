// The weight gradient of a convolution sums over all pixels of all images: a long reduction with few results. Small
// images of many channels have long sums and few results too. Both become partial sums and their sum, in a fixed order.
#include "heddle/core/ir/conv_problem.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/specialise/rewrites.h"

namespace heddle {
namespace {

bool is_conv(const OpDef* op) {
  return op == &ops::conv_op || op == &ops::conv_input_grad_op || op == &ops::conv_weight_grad_op;
}

bool any_varies(const IrNode& node) {
  for (int d = 0; d < node.shape.rank(); ++d) {
    if (dimension_varies(node, d)) return true;
  }
  return false;
}

}  // namespace

int split_conv(Graph& out, const IrNode& node, const Caps& caps) {
  if (!is_conv(node.op) || ConvAttrs(node.attrs).parts > 0) return -1;
  const IrNode& x = out.nodes[node.inputs[0]];
  ConvProblem p = conv_problem(out, node);
  if (p.kind != ConvProblem::Kind::weight_grad) {
    if (any_varies(x) || any_varies(node)) return -1;
  } else if (dimension_varies(x, 0)) {
    p.N = nominal_batch;
  }
  const int64_t parts = pick_conv_parts(caps, p);
  if (parts <= 1) return -1;
  // Partial sums of half precision are kept in f32.
  const DType t = arith(node.dtype);
  Shape shape{parts};
  for (int64_t d : node.shape) shape.push_back(d);
  IrNode partial = node;
  ConvAttrs attrs(node.attrs);
  attrs.parts = parts;
  partial.attrs = attrs.packed();
  partial.shape = shape;
  partial.varies = varies::unknown;
  partial.dtype = t;
  const int total = out.add({&ops::sum_op, axis_attrs(0), {out.add(std::move(partial))}, node.shape, t});
  return t == node.dtype ? total : out.add({&ops::cast_op, {}, {total}, node.shape, node.dtype});
}

}  // namespace heddle
